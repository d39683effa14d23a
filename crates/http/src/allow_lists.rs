//! Which hosts and origins are allowed.
//!
//! Any web page can make a browser send requests to this machine: with a form, or with a host name
//! of its own that it points here (DNS rebinding). Such a request has the page's host name in
//! `Host` or its origin in `Origin`, and is refused before anything else is read.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Uri, header};

use crate::problem::Problem;

/// The origin of Obsidian, whose plugin uses `/chat`.
pub const OBSIDIAN: &str = "app://obsidian.md";

/// Who may use the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Require a token on the loopback interface too.
    pub require_token: bool,
    /// Further host names of this server; with a port only that port, otherwise any.
    pub allow_hosts: Vec<String>,
    /// Further allowed origins, such as `https://example.org`.
    pub allow_origins: Vec<String>,
}

/// The rules for the address that the server listens on.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Requests without a token act as the owner `local`.
    pub(crate) open: bool,
    hosts: Vec<String>,
    names: Vec<String>,
    origins: Vec<String>,
}

impl Gate {
    pub(crate) fn new(rules: &Rules, address: SocketAddr) -> Gate {
        let port = address.port();
        let mut own = vec!["localhost".into(), "127.0.0.1".into(), "[::1]".into()];
        if !address.ip().is_unspecified() {
            own.push(match address {
                SocketAddr::V4(address) => address.ip().to_string(),
                SocketAddr::V6(address) => format!("[{}]", address.ip()),
            });
        }
        let mut hosts: Vec<String> = own.iter().map(|name| format!("{name}:{port}")).collect();
        if port == 80 {
            hosts.extend(own);
        }
        let mut names = Vec::new();
        for host in rules.allow_hosts.iter().map(|host| host.to_ascii_lowercase()) {
            match name_of(&host) == host {
                true => names.push(host),
                false => hosts.push(host),
            }
        }
        let given = rules.allow_origins.iter().map(|origin| origin.trim_end_matches('/'));
        let origins = given.chain([OBSIDIAN]).map(str::to_ascii_lowercase).collect();
        let open = address.ip().is_loopback() && !rules.require_token;
        Gate { open, hosts, names, origins }
    }

    /// The host name of this request, if it is one of ours.
    pub(crate) fn host(&self, headers: &HeaderMap, uri: &Uri) -> Result<String, Problem> {
        let given: Vec<_> = headers.get_all(header::HOST).iter().collect();
        let [host] = given.as_slice() else {
            return Err(Problem::bad_request("exactly one Host header is required"));
        };
        let host = host.to_str().unwrap_or_default().to_ascii_lowercase();
        let named = uri.authority().map(|name| name.as_str().to_ascii_lowercase());
        for name in [Some(&host), named.as_ref()].into_iter().flatten() {
            if !self.hosts.contains(name) && !self.names.iter().any(|known| known == name_of(name))
            {
                return Err(Problem::bad_host("the Host header does not name this server"));
            }
        }
        Ok(host)
    }

    /// The origin of this request, if it comes from an allowed page.
    pub(crate) fn origin(
        &self,
        headers: &HeaderMap,
        host: &str,
    ) -> Result<Option<String>, Problem> {
        let refused = || Problem::bad_origin("the Origin of the request is not allowed");
        let given: Vec<_> = headers.get_all(header::ORIGIN).iter().collect();
        match given.as_slice() {
            [] => {
                // Browsers report the site of a request even if they send no origin. Only an
                // address that a person typed, and our own pages, come without one.
                let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
                match site {
                    None | Some(b"none" | b"same-origin") => Ok(None),
                    Some(_) => Err(refused()),
                }
            }
            [origin] => {
                let text = origin.to_str().map_err(|_| refused())?;
                let origin = text.to_ascii_lowercase();
                let same = ["http://", "https://"]
                    .iter()
                    .any(|scheme| origin.strip_prefix(scheme) == Some(host));
                match same || self.origins.contains(&origin) {
                    true => Ok(Some(text.to_owned())),
                    false => Err(refused()),
                }
            }
            _ => Err(refused()),
        }
    }
}

/// A host name without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|digit| digit.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderName;

    use super::*;

    fn gate() -> Gate {
        let rules = Rules {
            allow_hosts: vec!["Chat.example.org".into(), "box:9000".into()],
            allow_origins: vec!["https://notes.example.org/".into()],
            ..Rules::default()
        };
        Gate::new(&rules, "127.0.0.1:8000".parse().expect("an address"))
    }

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = given
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header")));
        // `collect` would replace a header by the next one with the same name.
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_our_own_names_are_served() {
        let uri = Uri::from_static("/chat");
        let served = |host: &str| gate().host(&headers(&[("host", host)]), &uri).is_ok();
        for ours in [
            "127.0.0.1:8000",
            "LOCALHOST:8000",
            "[::1]:8000",
            "chat.example.org",
            "chat.example.org:443",
            "box:9000",
        ] {
            assert!(served(ours), "{ours}");
        }
        for other in [
            "evil.example",
            "evil.example:8000",
            "127.0.0.1:8001",
            "127.0.0.1",
            "localhost",
            "box",
            "box:9001",
            "127.0.0.1:8000.evil.example",
            "localhost:8000@evil.example",
            "",
        ] {
            assert!(!served(other), "{other}");
        }
        let twice = headers(&[("host", "localhost:8000"), ("host", "evil.example")]);
        assert!(gate().host(&twice, &uri).is_err());
        assert!(gate().host(&headers(&[]), &uri).is_err());
        let elsewhere = Uri::from_static("http://evil.example/chat");
        assert!(gate().host(&headers(&[("host", "localhost:8000")]), &elsewhere).is_err());
    }

    #[test]
    fn only_known_pages_are_let_in_and_no_page_is_fine() {
        let host = "127.0.0.1:8000";
        let origin = |given: &[(&'static str, &str)]| gate().origin(&headers(given), host);
        assert_eq!(origin(&[]).ok(), Some(None));
        for known in ["app://obsidian.md", "http://127.0.0.1:8000", "https://notes.example.org"] {
            let found = origin(&[("origin", known), ("sec-fetch-site", "cross-site")]);
            assert_eq!(found.ok(), Some(Some(known.into())));
        }
        for foreign in [
            "null",
            "https://evil.example",
            "http://127.0.0.1:3000",
            "http://localhost:8000.evil.example",
            "app://obsidian.md.evil",
            "",
        ] {
            assert!(origin(&[("origin", foreign)]).is_err(), "{foreign}");
        }
        assert!(origin(&[("origin", OBSIDIAN), ("origin", "https://evil.example")]).is_err());
        assert_eq!(origin(&[("sec-fetch-site", "none")]).ok(), Some(None));
        for site in ["cross-site", "same-site", "nonsense"] {
            assert!(origin(&[("sec-fetch-site", site)]).is_err(), "{site}");
        }
    }

    #[test]
    fn a_server_beyond_the_loopback_is_never_open() {
        for (address, require_token, open) in [
            ("127.0.0.1:8000", false, true),
            ("[::1]:8000", false, true),
            ("127.0.0.1:8000", true, false),
            ("0.0.0.0:8000", false, false),
            ("[::]:8000", false, false),
            ("192.0.2.7:8000", false, false),
        ] {
            let rules = Rules { require_token, ..Rules::default() };
            let gate = Gate::new(&rules, address.parse().expect("an address"));
            assert_eq!(gate.open, open, "{address}");
        }
    }
}
