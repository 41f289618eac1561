//! Names of grant types.

pub(super) const AUTHORIZATION_CODE: &str = "authorization_code";
pub(super) const CLIENT_CREDENTIALS: &str = "client_credentials";
pub(super) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";
pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
pub(super) const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
