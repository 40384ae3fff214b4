//! What the core needs of the ledgers, of either kind: tokens of a budget, or rights in a circle.

use crate::{rights, tokens};

/// What is to be entered into a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerNeed {
    /// Tokens of a budget.
    Tokens(tokens::Need),
    /// Rights in a circle.
    Rights(rights::Need),
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum LedgerAnswer {
    /// Tokens of a budget.
    Tokens(tokens::Settled),
    /// Rights in a circle.
    Rights(rights::Settled),
}

/// A ledger after a need was entered.
#[derive(Debug)]
pub struct Entered {
    /// The text to be written; none when nothing changed.
    pub text: Option<String>,
    /// The answer, which holds once the text is written.
    pub answer: LedgerAnswer,
}

impl LedgerNeed {
    /// The ledger's key in the bucket.
    pub fn key(&self) -> String {
        match self {
            LedgerNeed::Tokens(need) => need.budget.key(),
            LedgerNeed::Rights(need) => need.circle.to_string(),
        }
    }

    /// Enters the need into a ledger, of which this is the text; an empty one is new. None: the
    /// text is no ledger.
    pub fn enter(&self, text: &str) -> Option<Entered> {
        Some(match self {
            LedgerNeed::Tokens(need) => {
                let mut ledger = tokens::Ledger::parse(text)?;
                let text = ledger.settle(need).then(|| ledger.to_string());
                let settled = tokens::Settled {
                    need: need.clone(),
                    ledger: Some(ledger),
                };
                Entered {
                    text,
                    answer: LedgerAnswer::Tokens(settled),
                }
            }
            LedgerNeed::Rights(need) => {
                let mut ledger = rights::Ledger::parse(text)?;
                let text = ledger.settle(need).then(|| ledger.to_string());
                let settled = rights::Settled {
                    circle: need.circle,
                    ledger: Some(ledger),
                };
                Entered {
                    text,
                    answer: LedgerAnswer::Rights(settled),
                }
            }
        })
    }

    /// The answer when the broker gives none.
    pub fn unanswered(self) -> LedgerAnswer {
        match self {
            LedgerNeed::Tokens(need) => {
                LedgerAnswer::Tokens(tokens::Settled { need, ledger: None })
            }
            LedgerNeed::Rights(need) => LedgerAnswer::Rights(rights::Settled {
                circle: need.circle,
                ledger: None,
            }),
        }
    }
}
