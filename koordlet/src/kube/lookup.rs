//! One object by name, now. kube's own `get_opt` knows absence by a word in the answer, which a server without the
//! kind's CRD does not give.

use kube::Api;
use kube::api::DynamicObject;

use super::reason::Reason;

/// The object, or `None` if there is none of that name or kind.
pub(super) async fn lookup(
    api: &Api<DynamicObject>,
    name: &str,
) -> Result<Option<DynamicObject>, kube::Error> {
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if Reason::of(&error) == Reason::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
