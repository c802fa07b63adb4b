//! The instances that are explored whole: small ones by the tests, large ones by the campaign.

use super::protocol::{Protocol, Synchronous};

/// Two clients, and nothing happens to them.
pub const CALM: Protocol = Protocol {
    clients: 2,
    requests: 1,
    slots: 3,
    batch_max: 2,
    turns: 0,
    forks: 0,
    spoiler: None,
    stock: Synchronous::Full,
    stock_writes: 0,
    stock_deaths: 0,
    deaths: 0,
    checkpoints: 0,
    timeouts: 0,
    power_cuts: true,
    change: 100,
    mutation: None,
};

/// Another program writes and checkpoints beside us, and dies.
pub const STOCK: Protocol =
    Protocol { stock_writes: 1, stock_deaths: 1, deaths: 1, checkpoints: 1, ..CALM };

/// Another program writes beside us, and does no more.
const STOCK_WRITES: Protocol = Protocol { stock_writes: 1, ..CALM };

/// Three clients, of which one dies and one has a deadline.
pub const DEADLINE: Protocol =
    Protocol { clients: 3, slots: 4, batch_max: 3, deaths: 1, timeouts: 1, ..CALM };

/// Two leaders die, one after the other, among three clients with two slots.
pub const TWO_DEATHS: Protocol =
    Protocol { clients: 3, slots: 2, batch_max: 1, deaths: 2, checkpoints: 1, ..CALM };

/// Requests follow each other through the same slots.
pub const SLOTS: Protocol =
    Protocol { requests: 2, slots: 2, batch_max: 1, deaths: 1, timeouts: 1, ..CALM };

/// Both clients want their turn, and one can get impatient.
pub const TURNS: Protocol =
    Protocol { turns: 3, deaths: 1, timeouts: 1, checkpoints: 1, stock_writes: 1, ..CALM };

/// A transaction on a snapshot, a request that spoils its batch, another program.
pub const FORKS: Protocol =
    Protocol { forks: 1, spoiler: Some(1), deaths: 1, checkpoints: 1, stock_writes: 1, ..CALM };

/// What the tests explore: less than ten seconds.
pub const SMALL: &[(&str, Protocol)] = &[
    ("stock", STOCK),
    ("stock-young", Protocol { change: 0, ..STOCK }),
    ("stock-normal", Protocol { stock: Synchronous::Normal, ..STOCK }),
    ("deadline", DEADLINE),
    ("two-deaths", TWO_DEATHS),
    ("slots", SLOTS),
    ("turns", TURNS),
    ("forks", FORKS),
];

/// What the campaign explores: ten minutes, and less than a gigabyte of memory. Three clients of which two die beside
/// another program that checkpoints have more states than 60 million steps come to.
pub const LARGE: &[(&str, Protocol)] = &[
    ("stock-twice", Protocol { stock_writes: 2, timeouts: 1, ..STOCK }),
    ("stock-two-deaths", Protocol { deaths: 2, ..STOCK }),
    ("stock-three-clients", Protocol { deaths: 2, clients: 3, power_cuts: false, ..STOCK_WRITES }),
    ("two-deaths", Protocol { slots: 4, batch_max: 3, ..TWO_DEATHS }),
    ("deadline-stock", Protocol { stock_writes: 1, power_cuts: false, ..DEADLINE }),
    ("turns-and-forks", Protocol { turns: 2, clients: 3, power_cuts: false, ..FORKS }),
    ("turns-and-forks-two-deaths", Protocol { turns: 2, deaths: 2, ..FORKS }),
];
