//! The token that clients send with each request.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use dirigent::digest::hex;
use subtle::ConstantTimeEq as _;

use crate::files::{folder_of, written_beside};

/// The number of random bytes of a new token.
const RANDOM_BYTES: usize = 32;
/// The shortest accepted token, in characters.
const SHORTEST: usize = 32;
/// The longest accepted token, in characters.
const LONGEST: usize = 512;

/// A secret that gives access to the service. `Debug` does not show it.
#[derive(Clone)]
pub struct Token(String);

/// A token, and whether it is new.
#[derive(Clone, Debug)]
pub struct LoadedToken {
    /// The token.
    pub token: Token,
    /// Whether the token is new.
    pub origin: TokenOrigin,
}

/// Whether a token is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOrigin {
    /// The token was made and its file created.
    Created,
    /// The token was read from its file.
    Read,
}

/// Why a token cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or created.
    #[error("cannot {action} the token file {}: check the path and its permissions", path.display())]
    Io {
        /// The failed operation, as a verb.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: io::Error,
    },
    /// Other users can read or change the file.
    #[error("other users can access the token file {}: remove their permissions with `chmod 600`", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file does not contain a token.
    #[error(
        "the token file {} does not contain a token: it must have one line of {SHORTEST} to {LONGEST} of the characters A-Z, a-z, 0-9, -, ., _ and ~",
        path.display()
    )]
    Invalid {
        /// The file.
        path: PathBuf,
    },
    /// The system provides no random numbers.
    #[error(
        "cannot make a token, because the system provides no random numbers: write one to a file, and name the file"
    )]
    Random,
}

impl Token {
    /// Reads the token of a file. Blocks.
    ///
    /// # Errors
    /// The file cannot be read, is accessible to other users, or does not contain a token.
    pub fn load(path: &Path) -> Result<Token, TokenError> {
        let failed = |source| TokenError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let is_exposed = is_exposed(&std::fs::metadata(path).map_err(failed)?);
        if is_exposed {
            return Err(TokenError::Exposed {
                path: path.to_owned(),
            });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let text = text.trim();
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        if (SHORTEST..=LONGEST).contains(&text.len()) && text.chars().all(is_valid) {
            Ok(Token(text.to_owned()))
        } else {
            Err(TokenError::Invalid {
                path: path.to_owned(),
            })
        }
    }

    /// Reads the token of a file, or makes one and creates the file, which only its owner can read. Blocks.
    ///
    /// # Errors
    /// As for [`Token::load`]; the file cannot be created, or the system provides no random numbers.
    pub fn load_or_create(path: &Path) -> Result<LoadedToken, TokenError> {
        let read = |token| LoadedToken {
            token,
            origin: TokenOrigin::Read,
        };
        match Token::load(path) {
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded.map(read),
        }
        let token = Token::random()?;
        match token.create(path) {
            Ok(()) => Ok(LoadedToken {
                token,
                origin: TokenOrigin::Created,
            }),
            // Another process has just created it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Token::load(path).map(read),
            Err(source) => Err(TokenError::Io {
                action: "create",
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn random() -> Result<Token, TokenError> {
        random_hex().map(Token)
    }

    /// Creates the file with the whole token at once, so that other processes never read a part of it.
    fn create(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir_all(folder_of(path))?;
        let file = written_beside(path, format!("{}\n", self.0).as_bytes())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path)?;
        Ok(())
    }

    /// Returns true if a client sent this token. Takes the same time wherever they differ.
    pub(crate) fn matches(&self, sent: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(sent).into()
    }

    /// The address with the token, for a browser. Whoever has the link has access. For a server that listens on all addresses of its computer, the link is for a
    /// browser on the same computer.
    pub fn link(&self, address: SocketAddr) -> String {
        format!("http://{}/?token={}", reachable(address), self.0)
    }

    /// The token itself.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

/// The address at which programs of the same computer reach a server that listens on `address`: an unspecified address, such as `0.0.0.0`, is none.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Random bytes, as many as a new token has, in hexadecimal digits.
pub(crate) fn random_hex() -> Result<String, TokenError> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| TokenError::Random)?;
    Ok(hex(&bytes))
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(unix)]
fn is_exposed(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_exposed(_: &std::fs::Metadata) -> bool {
    false
}
