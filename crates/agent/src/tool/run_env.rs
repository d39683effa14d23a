//! The environment variables of a command: only those on a list.
//!
//! The name of a variable does not show whether it is secret (`GH_PAT`, `MYSQL_PWD`, `JWT`), so
//! nothing is passed on unless it is known to be harmless or listed in `run.env`.

use std::ffi::OsString;

/// Variables that shells, compilers and package managers need, and that contain paths, names and
/// switches. A `*` at the end matches any suffix.
const USUAL: [&str; 62] = [
    // User, folders and language.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "HOSTNAME",
    "TMPDIR",
    "TZ",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
    "CI",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // Compilers and linkers.
    "CC",
    "CXX",
    "CFLAGS",
    "CXXFLAGS",
    "CPPFLAGS",
    "LDFLAGS",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "PKG_CONFIG_PATH",
    "MAKEFLAGS",
    // Where languages keep their tools and packages.
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_NET_OFFLINE",
    "CARGO_TERM_COLOR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTFLAGS",
    "RUST_BACKTRACE",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOFLAGS",
    "GOPROXY",
    "JAVA_HOME",
    "NODE_ENV",
    "NODE_PATH",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    // For network access, if it is allowed.
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
];

/// The variables of a command: the usual ones, unless their value contains a password, and those
/// matched by `also`, with any value.
pub(super) fn passed_on(also: &[String]) -> Vec<(OsString, OsString)> {
    let passes = |name: &str, value: &str| {
        also.iter().any(|pattern| fits(pattern, name))
            || USUAL.iter().any(|usual| fits(usual, &name.to_uppercase()))
                && !has_password(name, value)
    };
    let all = std::env::vars_os();
    all.filter(|(name, value)| passes(&name.to_string_lossy(), &value.to_string_lossy())).collect()
}

/// Whether a name matches an entry of a list.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}

/// Whether a value contains a URL with a password.
fn has_password(name: &str, value: &str) -> bool {
    // Programs accept a proxy without its scheme, too.
    let skipped = usize::from(!name.to_uppercase().ends_with("_PROXY"));
    value.split("://").skip(skipped).any(|rest| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        rest[..end].rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_matches_any_suffix_and_nothing_else_does() {
        assert!(fits("LC_*", "LC_ALL") && fits("HOME", "HOME") && fits("*", "ANY"));
        assert!(!fits("LC_*", "LANG") && !fits("HOME", "HOME_2") && !fits("HOME_2", "HOME"));
    }
}
