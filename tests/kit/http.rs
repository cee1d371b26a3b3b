//! One HTTP GET over a plain socket: status and body. No client library for two requests.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Gets `path` from `address`.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    get_with_header(address, path, "").map(|(status, _, body)| (status, body))
}

/// Gets `path` from `address`: status, the value of one header of the answer, body.
pub fn get_with_header(
    address: SocketAddr,
    path: &str,
    header: &str,
) -> Result<(u16, Option<String>, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end of its head")?;
    let status =
        head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("an answer without a status")?;
    let value = head.lines().skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(header).then(|| value.trim().to_owned())
    });
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    Ok((status, value, if chunked { unchunk(body)? } else { body.to_owned() }))
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
