//! HTTP requests over a plain socket. No client library for a handful of requests.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Status line and headers as they came.
    pub head: String,
    /// Body; empty where there is none.
    pub body: String,
}

impl Answer {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// Gets `path` from `address`: status and body.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let Answer { status, body, .. } = request(address, "GET", path, &[])?;
    Ok((status, body))
}

/// Posts a JSON document.
pub fn post_json(address: SocketAddr, path: &str, document: &serde_json::Value) -> Result<Answer> {
    send(address, "POST", path, &[("Content-Type", "application/json")], &document.to_string())
}

/// Sends a request with these headers.
pub fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
    send(address, method, path, headers, "")
}

fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    content: &str,
) -> Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n")?;
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    if !content.is_empty() {
        write!(stream, "Content-Length: {}\r\n", content.len())?;
    }
    write!(stream, "\r\n{content}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    let status =
        head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("an answer without a status")?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked && !body.is_empty() { unchunk(body)? } else { body.to_owned() };
    Ok(Answer { status, head: head.to_owned(), body })
}

fn unchunk(mut body: &str) -> Result<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").context("a chunk without a size")?;
        let size = usize::from_str_radix(size.trim(), 16).context("a chunk size")?;
        if size == 0 {
            return Ok(whole);
        }
        whole.push_str(rest.get(..size).context("a cut chunk")?);
        body = rest.get(size + 2..).context("a chunk without an end")?;
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn chunks_are_joined() {
        assert_eq!(super::unchunk("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").expect("valid"), "abcde");
        assert!(super::unchunk("9\r\nabc").is_err());
    }
}
