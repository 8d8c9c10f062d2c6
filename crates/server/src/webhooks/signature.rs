//! The signature of a message, by the scheme of Standard Webhooks: HMAC-SHA256 over the id, the time and the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;

/// Returns the value of the header `webhook-signature`. A secret that begins with `whsec_` is the Base64 form of its key.
pub(super) fn signature(secret: &SecretString, id: &str, seconds: i64, body: &[u8]) -> String {
    let secret = secret.expose_secret();
    let decoded = secret
        .strip_prefix("whsec_")
        .and_then(|key| STANDARD.decode(key).ok());
    let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
    // Never fails: HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else {
        return String::new();
    };
    mac.update(format!("{id}.{seconds}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        // The example of the specification's reference implementations.
        let secret: SecretString = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into();
        let signed = signature(
            &secret,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
