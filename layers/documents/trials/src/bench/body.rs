//! Bodies of documents.

/// The bytes of the body of a document.
pub const BYTES: usize = 1_024;

/// The guild of a game as JSON of [`BYTES`] bytes: texts, numbers, a list of names and an object.
#[must_use]
pub fn document(number: usize) -> String {
    let names: Vec<String> = (0..20)
        .map(|member| format!(r#""member {:08}""#, number * 20 + member))
        .collect();
    let body = |motto: &str| {
        format!(
            r#"{{"name":"guild {number:08}","level":37,"gold":1234567,"open":true,"home":{{"x":1.5,"y":-20.25,"zone":"the red hills"}},"members":[{}],"motto":"{motto}"}}"#,
            names.join(",")
        )
    };
    let room = BYTES.saturating_sub(body("").len());
    body(&"m".repeat(room))
}

/// A member of a guild as JSON of some 150 bytes.
#[must_use]
pub fn item(number: usize) -> String {
    format!(
        r#"{{"name":"member {number:08}","level":{},"gold":{},"class":"ranger","guild":"the round table","online":false,"zone":"the red hills"}}"#,
        number % 80,
        number * 7
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_and_documents_have_1024_bytes() {
        for number in [0, 7, 4_095] {
            assert_eq!(document(number).len(), BYTES);
            for text in [document(number), item(number)] {
                serde_json::from_str::<serde_json::Value>(&text).unwrap();
            }
        }
    }
}
