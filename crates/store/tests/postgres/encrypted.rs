//! Encryption, with a real certificate.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rethread_store::PostgresStore;
use rethread_store::testing::Cluster;

/// A certificate for `localhost`, signed by itself.
const REQUEST: &str = "[req]\ndistinguished_name = name\nx509_extensions = more\nprompt = no\n\
    [name]\nCN = localhost\n[more]\nsubjectAltName = DNS:localhost\nbasicConstraints = CA:FALSE\n";

/// Gives a server a key and a certificate, and lets it encrypt.
fn encrypts(cluster: &Cluster) -> std::path::PathBuf {
    let data = cluster.sql("postgres", "SHOW data_directory");
    let data = Path::new(&data);
    let (key, certificate) = (data.join("server.key"), data.join("server.crt"));
    std::fs::write(data.join("request"), REQUEST).expect("written");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3", "-config"])
        .arg(data.join("request"))
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let owner = std::fs::metadata(data).expect("there");
    for file in [&key, &certificate] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).expect("closed");
        chown(file, Some(owner.uid()), Some(owner.gid())).expect("given");
    }
    cluster.sql("postgres", "ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()");
    let began = std::time::Instant::now();
    while cluster.sql("postgres", "SHOW ssl") != "on" {
        assert!(began.elapsed().as_secs() < 60, "{}", cluster.log());
    }
    certificate
}

#[test]
fn a_server_is_believed_only_if_its_certificate_is_trusted_and_its_own() {
    let cluster = Cluster::start();
    let certificate = encrypts(&cluster);
    let base = cluster.url("postgres");
    let named = base.replace("127.0.0.1", "localhost");
    let opened = |url: String| {
        use std::error::Error;
        match PostgresStore::open(&url) {
            Ok(_store) => {
                let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a \
                           USING (pid) WHERE a.application_name = 'rethread'";
                Ok(cluster.sql("postgres", sql))
            }
            Err(error) => Err(error.source().map(ToString::to_string).unwrap_or_default()),
        }
    };
    assert_eq!(opened(format!("{base}?sslmode=require")), Ok("t".into()), "encrypted");
    assert_eq!(opened(base.clone()), Ok("t".into()), "where it is offered");
    assert_eq!(opened(format!("{base}?sslmode=disable")), Ok("f".into()), "as requested");
    let trusted = format!("sslmode=verify-full&sslrootcert={}", certificate.display());
    assert_eq!(opened(format!("{named}?{trusted}")), Ok("t".into()), "trusted and its own");
    let stranger = opened(format!("{named}?sslmode=verify-full")).expect_err("not trusted");
    assert!(stranger.contains("certificate"), "{stranger}");
    let another = opened(format!("{base}?{trusted}")).expect_err("of another name");
    assert!(another.contains("certificate"), "{another}");
}
