//! From a text to an expression.

use std::mem;

use super::error::FilterError;
use super::expr::{Binary, Expr, Function, Operator};
use super::like;
use super::token::{Lexer, Piece, Token};
use crate::json::Json;

/// The most bytes of a filter.
pub const TEXT_BYTES_MAX: usize = 4_096;

/// The most levels of brackets, arguments and operators in front of operands.
pub const DEPTH_MAX: usize = 32;

/// The most operands, operators and calls. A literal counts once, also a list.
pub const NODES_MAX: usize = 256;

/// The level of the operators that bind loosest.
const LOOSEST: u8 = 1;

type Result<T> = std::result::Result<T, FilterError>;

pub(super) fn parse(text: &str) -> Result<Expr> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("a filter has {} bytes", text.len());
        let help = format!("write at most {TEXT_BYTES_MAX}");
        return Err(FilterError::new(TEXT_BYTES_MAX, what, help));
    }
    let mut parser = Parser::new(text)?;
    let expr = parser.expression(LOOSEST)?;
    parser.end()?;
    Ok(expr)
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    /// The next token.
    token: Token,
    nodes: usize,
    depth: usize,
}

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        let token = lexer.next()?;
        let (nodes, depth) = (0, 0);
        Ok(Self {
            lexer,
            token,
            nodes,
            depth,
        })
    }

    /// Takes the next token.
    fn advance(&mut self) -> Result<Token> {
        let next = self.lexer.next()?;
        Ok(mem::replace(&mut self.token, next))
    }

    /// Takes the next token if it is this symbol.
    fn take(&mut self, symbol: &'static str) -> Result<bool> {
        let taken = self.token.piece == Piece::Symbol(symbol);
        if taken {
            self.advance()?;
        }
        Ok(taken)
    }

    fn expect(&mut self, symbol: &'static str) -> Result<()> {
        if self.take(symbol)? {
            return Ok(());
        }
        Err(self.unexpected(&format!("write {symbol} or an operator here")))
    }

    fn end(&self) -> Result<()> {
        match &self.token.piece {
            Piece::End => Ok(()),
            _ => Err(self.unexpected("write an operator before it, or remove it")),
        }
    }

    fn unexpected(&self, help: &str) -> FilterError {
        let what = match &self.token.piece {
            Piece::Literal(_) => "a value stands in the wrong place".to_owned(),
            Piece::Word(word) => format!("{word} stands in the wrong place"),
            Piece::Name(path) => format!("{} stands in the wrong place", path.join(".")),
            Piece::Symbol(symbol) => format!("{symbol} stands in the wrong place"),
            Piece::End => "the text ends too early".to_owned(),
        };
        FilterError::new(self.token.at, what, help)
    }

    /// Counts one operand, operator or call.
    fn count(&mut self) -> Result<()> {
        self.nodes = self.nodes.saturating_add(1);
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        let what = format!("more than {NODES_MAX} operands and operators");
        let help = "write a shorter filter, with a list in place of many comparisons";
        Err(FilterError::new(self.token.at, what, help))
    }

    /// Parses one level deeper.
    // Every recursion of the parser goes through here, except from an operator to a tighter one.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            let what = format!("more than {DEPTH_MAX} levels of brackets");
            let help = "write it with fewer brackets";
            return Err(FilterError::new(self.token.at, what, help));
        }
        self.depth = self.depth.saturating_add(1);
        let parsed = parse(self);
        self.depth = self.depth.saturating_sub(1);
        parsed
    }

    /// Operands with operators of this level or tighter ones between them.
    fn expression(&mut self, loosest: u8) -> Result<Expr> {
        let mut left = self.operand()?;
        while let Some(operator) = self.operator() {
            if operator.level < loosest {
                break;
            }
            self.count()?;
            let negated = self.take_operator(operator)?;
            let at = self.token.at;
            let right = self.expression(operator.level.saturating_add(1))?;
            left = joined(operator.binary, left, right, at)?;
            if negated {
                left = Expr::Not(Box::new(left));
            }
        }
        Ok(left)
    }

    /// The operator that comes next.
    fn operator(&self) -> Option<Operator> {
        match &self.token.piece {
            Piece::Word(word) => Operator::named(word),
            Piece::Symbol(symbol) => Operator::named(symbol),
            _ => None,
        }
    }

    /// Takes an operator of one or two words. Returns whether its result is negated.
    fn take_operator(&mut self, operator: Operator) -> Result<bool> {
        self.advance()?;
        let second = matches!(&self.token.piece, Piece::Word(word) if match operator.text {
            "has" => word == "not",
            "not" => word == "like",
            _ => false,
        });
        if second {
            self.advance()?;
        } else if operator.text == "not" {
            return Err(self.unexpected("write like behind not, or ! before a condition"));
        }
        Ok(operator.negated || second)
    }

    fn operand(&mut self) -> Result<Expr> {
        if self.take("(")? {
            let inner = self.deeper(|parser| parser.expression(LOOSEST))?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.count()?;
        if let Piece::Word(_) | Piece::Name(_) = self.token.piece {
            return self.name();
        }
        if self.take("!")? {
            let inner = self.deeper(Self::operand)?;
            return Ok(Expr::Not(Box::new(inner)));
        }
        if self.take("-")? {
            let inner = self.deeper(Self::operand)?;
            return Ok(Expr::Negate(Box::new(inner)));
        }
        self.literal().map(Expr::Literal)
    }

    /// A name, a word with a meaning, or a call.
    fn name(&mut self) -> Result<Expr> {
        if let Some(literal) = self.constant()? {
            return Ok(Expr::Literal(literal));
        }
        if let (Piece::Word(word), Some(_)) = (&self.token.piece, self.operator()) {
            let help = format!("write a value before it, or `{word}` in backticks for a name");
            return Err(self.unexpected(&help));
        }
        let Token { at, piece } = self.advance()?;
        let path = match piece {
            Piece::Word(word) => vec![word],
            Piece::Name(path) => path,
            _ => Vec::new(),
        };
        if self.take("(")? {
            return self.call(&path.join("."), at);
        }
        Ok(Expr::Name(path))
    }

    /// A call, behind its opening bracket.
    fn call(&mut self, name: &str, at: usize) -> Result<Expr> {
        let Some(function) = Function::named(name) else {
            let what = format!("there is no function {name}");
            let help = format!("the functions are {}", Function::names());
            return Err(FilterError::new(at, what, help));
        };
        let mut arguments = Vec::new();
        if !self.take(")")? {
            arguments.push(self.argument()?);
            while self.take(",")? {
                arguments.push(self.argument()?);
            }
            self.expect(")")?;
        }
        if !function.takes(arguments.len()) {
            let what = format!("{name} does not take {} arguments", arguments.len());
            let help = format!("write {}", function.usage());
            return Err(FilterError::new(at, what, help));
        }
        Ok(Expr::Call(function, arguments))
    }

    fn argument(&mut self) -> Result<Expr> {
        self.deeper(|parser| parser.expression(LOOSEST))
    }

    /// `true`, `false` or `null`, if one of them comes next.
    fn constant(&mut self) -> Result<Option<Json>> {
        let constant = match &self.token.piece {
            Piece::Word(word) => match word.as_str() {
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                "null" => Json::Null,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.advance()?;
        Ok(Some(constant))
    }

    /// A literal, at the beginning or within a list or an object.
    fn literal(&mut self) -> Result<Json> {
        if let Some(constant) = self.constant()? {
            return Ok(constant);
        }
        if self.take("[")? {
            return self.deeper(Self::list);
        }
        if self.take("{")? {
            return self.deeper(Self::object);
        }
        let minus = self.take("-")?;
        match &self.token.piece {
            Piece::Literal(literal) => {
                let literal = if minus {
                    negated(literal)
                } else {
                    Some(literal.clone())
                };
                let literal = literal.ok_or_else(|| self.unexpected("write - before numbers"))?;
                self.advance()?;
                Ok(literal)
            }
            _ => Err(self.unexpected("write a value here; lists and objects hold literals only")),
        }
    }

    /// A list, behind its opening bracket.
    fn list(&mut self) -> Result<Json> {
        let mut items = Vec::new();
        if self.take("]")? {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.literal()?);
            if self.take("]")? {
                return Ok(Json::Array(items));
            }
            self.expect(",")?;
        }
    }

    /// An object, behind its opening bracket.
    fn object(&mut self) -> Result<Json> {
        let mut members = Vec::new();
        if self.take("}")? {
            return Ok(Json::Object(members));
        }
        loop {
            let name = self.member_name(&members)?;
            self.expect(":")?;
            members.push((name, self.literal()?));
            if self.take("}")? {
                return Ok(Json::Object(members));
            }
            self.expect(",")?;
        }
    }

    /// The name of a member, which these do not have yet.
    fn member_name(&mut self, members: &[(String, Json)]) -> Result<String> {
        let name = match &self.token.piece {
            Piece::Literal(Json::Text(name)) => name.clone(),
            _ => return Err(self.unexpected("write the name of a member in quotes")),
        };
        if members.iter().any(|(known, _)| *known == name) {
            return Err(self.unexpected("write each member once"));
        }
        self.advance()?;
        Ok(name)
    }
}

/// The number with a minus. `None` if it is no number.
fn negated(literal: &Json) -> Option<Json> {
    match literal {
        Json::Number(number) => Json::number(&format!("-{}", number.text())),
        _ => None,
    }
}

/// An operator with its operands. A literal pattern, which begins at this byte, is compiled.
fn joined(binary: Binary, left: Expr, right: Expr, at: usize) -> Result<Expr> {
    let (Binary::Like, Expr::Literal(Json::Text(pattern))) = (binary, &right) else {
        return Ok(Expr::Binary(binary, Box::new((left, right))));
    };
    match like::compiled(pattern) {
        Ok(pattern) => Ok(Expr::Like(Box::new(left), pattern)),
        Err(why) => {
            let what = format!("the pattern does not compile: {why}");
            let help =
                "write it without look-around, and (?-u:\\w) in place of \\w to make it small";
            Err(FilterError::new(at, what, help))
        }
    }
}
