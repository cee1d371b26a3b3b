//! Large pages that are made for each request: one for all who ask for the same at about the same time, and few of
//! them in memory however slowly they are read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::{JoinError, spawn_blocking};

/// Age up to which a page that is still being read is shared.
const SHARED: Duration = Duration::from_secs(1);
/// Most pages that are being read. One more cuts the readers of the oldest: those of a second or two have had time.
const MOST: usize = 4;
/// Bytes that a connection takes of a page at a time; they are its own, so that a page that is cut is gone at once.
const PIECE: usize = 64 << 10;

/// The pages that are being read, of kinds `K`.
#[derive(Debug)]
pub struct SharedPages<K>(AsyncMutex<VecDeque<Living<K>>>);

#[derive(Debug)]
struct Living<K> {
    kind: K,
    begun: Instant,
    page: Weak<Page>,
}

/// One page, until it is cut.
#[derive(Debug)]
struct Page {
    text: Mutex<Option<String>>,
    length: usize,
}

impl<K> Default for SharedPages<K> {
    fn default() -> Self {
        Self(AsyncMutex::default())
    }
}

impl<K: PartialEq> SharedPages<K> {
    /// The page of this kind: one of the last second that is still being read, or what `write` makes in another
    /// thread. One is made at a time.
    ///
    /// # Errors
    /// `write` panicked, or the runtime is ending.
    pub async fn get(
        &self,
        kind: K,
        write: impl FnOnce() -> String + Send + 'static,
    ) -> Result<PageBody, JoinError> {
        let mut living = self.0.lock().await;
        living.retain(|each| each.page.strong_count() > 0);
        let young = |each: &&Living<K>| each.kind == kind && each.begun.elapsed() < SHARED;
        if let Some(page) = living.iter().rev().find(young).and_then(|each| each.page.upgrade()) {
            return Ok(PageBody { page, sent: 0 });
        }
        while living.len() >= MOST {
            let oldest = living.pop_front().and_then(|each| each.page.upgrade());
            if let Some(oldest) = oldest {
                *oldest.text() = None;
            }
        }
        let begun = Instant::now();
        let text = spawn_blocking(write).await?;
        let page = Arc::new(Page { length: text.len(), text: Mutex::new(Some(text)) });
        living.push_back(Living { kind, begun, page: Arc::downgrade(&page) });
        Ok(PageBody { page, sent: 0 })
    }
}

impl Page {
    fn text(&self) -> MutexGuard<'_, Option<String>> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rest of a page was needed no longer.
#[derive(Debug, thiserror::Error)]
#[error("cut: the page was read too slowly, and newer ones were asked for")]
pub struct Cut;

/// A page on its way to one reader.
#[derive(Debug)]
pub struct PageBody {
    page: Arc<Page>,
    sent: usize,
}

impl PageBody {
    fn left(&self) -> usize {
        self.page.length.saturating_sub(self.sent)
    }
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let until = self.sent + self.left().min(PIECE);
        let piece = match self.page.text().as_ref() {
            _ if until == self.sent => return Poll::Ready(None),
            None => return Poll::Ready(Some(Err(Cut))),
            Some(text) => text.as_bytes().get(self.sent..until).map(Bytes::copy_from_slice),
        };
        self.sent = until;
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left() as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn get(pages: &SharedPages<u8>, kind: u8, text: &str) -> PageBody {
        let text = text.to_owned();
        pages.get(kind, move || text).await.unwrap()
    }

    async fn text(body: PageBody) -> String {
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn readers_of_one_kind_share_a_page_while_it_is_read() {
        let pages = SharedPages::default();
        let first = get(&pages, 0, "a").await;
        let second = get(&pages, 0, "b").await;
        assert!(Arc::ptr_eq(&first.page, &second.page));
        assert_eq!(text(get(&pages, 1, "c").await).await, "c", "another kind");
        assert_eq!((text(first).await, text(second).await), ("a".to_owned(), "a".to_owned()));
        assert_eq!(text(get(&pages, 0, "d").await).await, "d", "nobody reads the old one any more");
    }

    #[tokio::test]
    async fn an_old_page_is_not_shared() {
        let pages = SharedPages::default();
        let _slow = get(&pages, 0, "old").await;
        pages.0.lock().await[0].begun = Instant::now().checked_sub(SHARED).unwrap();
        assert_eq!(text(get(&pages, 0, "new").await).await, "new");
    }

    #[tokio::test]
    async fn slow_readers_keep_few_pages_alive() {
        let pages = SharedPages::default();
        let long = "x".repeat(3 * PIECE);
        let mut slow = Vec::new();
        for kind in 0..20 {
            let mut reader = get(&pages, kind, &long).await;
            assert_eq!(reader.frame().await.unwrap().unwrap().into_data().unwrap().len(), PIECE);
            slow.push(reader);
        }
        let held = slow.iter().filter(|reader| reader.page.text().is_some()).count();
        assert_eq!(held, MOST);
        let newest = slow.pop().unwrap();
        assert_eq!(newest.collect().await.unwrap().to_bytes().len(), 2 * PIECE);
        assert!(slow.remove(0).collect().await.is_err(), "told by the length that was announced");
    }
}
