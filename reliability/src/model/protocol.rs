//! The state machine: which steps can follow a state, and what they do.
//!
//! Steps of the protocol are told from what the surroundings do to it: a death, a power cut, a
//! deadline, another program. Where no step of the protocol is left, nobody who lives may be waiting.

use stateright::{Model, Property};

use super::client;
use super::disk::Files;
use super::mutation::Mutation;
use super::properties;
use super::state::{Client, End, Leading, Left, Phase, Shared, Slot, State, Told, Who};

/// `recover::CHANGES_SINCE_DEATH_MAX`, in proportion to the few commits of the model.
pub const CHANGES_SINCE_DEATH_MAX: u8 = 20;

/// `PRAGMA synchronous` of the other program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Synchronous {
    Full,
    Normal,
    Off,
}

/// An instance of the model: who takes part, and what happens at most.
#[derive(Clone, Debug, clap::Args)]
pub struct Protocol {
    /// Processes with one connection each.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub clients: u8,
    /// Requests of each client, one after the other.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub requests: u8,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub slots: u8,
    /// Requests in a batch at most. Less than there are slots: see [`Mutation::BatchOfAllSlots`].
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub batch_max: u8,
    /// Clients, as bits, whose requests are turns.
    #[arg(long, default_value_t = 0)]
    pub turns: u8,
    /// Clients, as bits, whose transactions run on a snapshot.
    #[arg(long, default_value_t = 0)]
    pub forks: u8,
    /// A request that makes its batch unusable, until it is executed alone.
    #[arg(long)]
    pub spoiler: Option<u8>,
    /// `synchronous` of the other program.
    #[arg(long, value_enum, default_value = "full")]
    pub stock: Synchronous,
    /// Transactions of the other program.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub stock_writes: u8,
    #[arg(long, default_value_t = 0)]
    pub stock_deaths: u8,
    /// Clients that are killed.
    #[arg(long, default_value_t = 0)]
    pub deaths: u8,
    #[arg(long, default_value_t = 0)]
    pub checkpoints: u8,
    #[arg(long, default_value_t = 0)]
    pub timeouts: u8,
    /// Unsynced writes can be lost; else the death of all processes is the worst.
    #[arg(long)]
    pub power_cuts: bool,
    /// The wal-index's change counter at first: below or above [`CHANGES_SINCE_DEATH_MAX`].
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=200))]
    pub change: u8,
    /// A fault of the protocol: a promise must break.
    #[arg(long, value_enum)]
    pub mutation: Option<Mutation>,
}

/// One step. Those of the leader name nobody: there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `Optimistic`: a transaction runs on its snapshot.
    Fork(Client),
    /// `Client::lead_if_idle`.
    LeadIfIdle(Client),
    /// The queue is in use: the write is to be published.
    Submit(Client),
    /// `Queue::claim`.
    Claim(Client),
    /// `Queue::sweep`.
    Sweep(Client),
    /// `Claim::publish`, with the draw of the ticket.
    Publish(Client),
    /// `Queue::try_lead`.
    Lead(Client),
    /// `Queue::try_take_over`.
    Succeed(Client),
    /// `Published::into_answer`.
    Fetch(Client),
    /// `End::Again`: the request is not in the queue any more.
    Again(Client),
    /// `recover::resolve_orphan` without a look.
    Settle,
    /// `recover::look`.
    Look,
    SyncWhatWasFound,
    /// `Lead::resolve`.
    SettleSlot,
    BeginBatch,
    Take,
    Execute,
    EndEmptyBatch,
    Answer,
    AcceptTurn,
    /// `Lead::call`, of a turn whose owner died.
    PassOver,
    BeginTurn,
    Release,
    /// The writer restarts the WAL.
    Restart,
    /// The next step of whoever commits.
    Commit,
    /// The next step of the checkpoint.
    Checkpoint,
    /// Whoever next uses the database recovers the wal-index.
    Recover,

    /// From here on: the surroundings.
    BeginCheckpoint(Who),
    StockBegins,
    StockDies,
    Die(Client),
    /// The deadline of a client that waits passes: `Published::withdraw`.
    Withdraw(Client),
    /// The leader's deadline passes while another program writes.
    GiveUp,
    /// Everybody dies, and unsynced writes are lost whose bits are set.
    End(u32),
}

impl Protocol {
    pub fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    pub fn request(&self, state: &State, client: Client) -> u8 {
        client * self.requests + state.at[usize::from(client)]
    }

    /// Stock's writes are numbered behind the clients' requests.
    pub fn first_of_stock(&self) -> u8 {
        self.clients * self.requests
    }

    /// The owner of the current request knows: it goes on to its next one.
    pub fn tell(&self, state: &mut State, client: Client, told: Told) {
        let request = self.request(state, client);
        state.told[usize::from(request)] = told;
        let at = &mut state.at[usize::from(client)];
        *at += 1;
        let next = if *at == self.requests { Phase::Done } else { Phase::Idle };
        state.clients[usize::from(client)] = next;
    }

    /// The steps of the protocol, another program's current transaction included.
    pub fn steps(&self, state: &State, actions: &mut Vec<Action>) {
        if state.end.is_some() {
            return;
        }
        for client in 0..self.clients {
            self.client_actions(state, client, actions);
        }
        self.leader_actions(state, actions);
        let looks = matches!(state.leading, Some(Leading::Looked(_)));
        if let Some(writer) = state.writer.filter(|it| !looks || it.who == Who::Stock) {
            let ready = match &state.leading {
                Some(Leading::Batch { taken, executed }) if writer.who != Who::Stock => {
                    taken.is_none() && !executed.is_empty()
                }
                _ => true,
            };
            let ours_is_free = writer.who == Who::Stock || state.leader().is_some();
            if ready && ours_is_free {
                actions.push(Action::Commit);
                actions.extend(Protocol::may_restart(state).then_some(Action::Restart));
            }
        }
        if state.checkpoint.is_some() {
            actions.push(Action::Checkpoint);
        }
        if Protocol::may_recover(state) {
            actions.push(Action::Recover);
        }
    }

    fn surroundings(&self, state: &State, actions: &mut Vec<Action>) {
        if state.end.is_some() {
            return;
        }
        let left = state.left;
        // A program that reads already may take the write lock whatever the last writer left.
        if left.stock_writes > 0 && (self.may_begin(state) || self.may_begin_late(state)) {
            actions.push(Action::StockBegins);
        }
        if self.may_checkpoint(state) {
            let between = matches!(state.leading, Some(Leading::Serving | Leading::Leaving));
            let leader = state.leader().filter(|_| between);
            actions.extend(leader.map(|leader| Action::BeginCheckpoint(Who::Client(leader))));
            if self.stock_writes > 0 {
                actions.push(Action::BeginCheckpoint(Who::Stock));
            }
        }
        let stock_acts = state.writer.is_some_and(|it| it.who == Who::Stock)
            || state.checkpoint.is_some_and(|it| it.who == Who::Stock);
        if left.stock_deaths > 0 && stock_acts {
            actions.push(Action::StockDies);
        }
        for client in 0..self.clients {
            if left.deaths > 0 && !matches!(state.phase(client), Phase::Dead) {
                actions.push(Action::Die(client));
            }
            if left.timeouts > 0 && self.may_withdraw(state, client) {
                actions.push(Action::Withdraw(client));
            }
        }
        let gives_up = matches!(state.leading, Some(Leading::Begun | Leading::Serving))
            && state.writer.is_some_and(|it| it.who == Who::Stock);
        if left.timeouts > 0 && gives_up && state.leader().is_some() {
            actions.push(Action::GiveUp);
        }
        let losses = if self.power_cuts { 1 << state.files.unsynced() } else { 1 };
        actions.extend((0..losses).map(Action::End));
    }

    fn die(&self, state: &mut State, client: Client) {
        state.left.deaths -= 1;
        state.clients[usize::from(client)] = Phase::Dead;
        if state.shared.holder == Some(client) {
            state.leading = None;
        }
        drop_locks(state, Who::Client(client));
    }

    /// After the end, only what was promised and what is found matter.
    fn end(&self, state: &State, lost: u32) -> State {
        let found = state.files.after_power_cut(lost);
        let seen = state.files.visible().unwrap_or_default();
        let mut end = self.first(0);
        end.clients = vec![Phase::Done; usize::from(self.clients)];
        end.told.clone_from(&state.told);
        end.evidence_gone = state.evidence_gone;
        end.recovered_unsynced = state.recovered_unsynced;
        end.answers_mixed_up = state.answers_mixed_up;
        end.end = Some(End { seen, found });
        end
    }

    fn first(&self, change: u8) -> State {
        let clients = usize::from(self.clients);
        let told = usize::from(self.first_of_stock() + self.stock_writes);
        State {
            files: Files::new(change),
            writer: None,
            checkpoint: None,
            shared: Shared {
                slots: vec![Slot::default(); usize::from(self.slots)],
                ring: Vec::new(),
                tickets: 0,
                holder: None,
                unresolved: false,
                announced: None,
                publishing: false,
                sealed: true,
            },
            leading: None,
            clients: vec![Phase::Idle; clients],
            at: vec![0; clients],
            left: Left {
                deaths: self.deaths,
                stock_deaths: self.stock_deaths,
                stock_writes: self.stock_writes,
                checkpoints: self.checkpoints,
                timeouts: self.timeouts,
            },
            told: vec![Told::Nothing; told],
            evidence_gone: false,
            recovered_unsynced: false,
            answers_mixed_up: false,
            end: None,
        }
    }

    fn stock_begins(&self, state: &mut State) {
        let request = self.first_of_stock() + self.stock_writes - state.left.stock_writes;
        state.left.stock_writes -= 1;
        self.begin(state, Who::Stock, false);
        let writer = state.writer.as_mut().expect("begun above");
        writer.content = writer.content.with(request);
    }

    fn apply(&self, state: &mut State, action: Action) {
        let leader = state.shared.holder.unwrap_or_default();
        match action {
            Action::Fork(client)
            | Action::LeadIfIdle(client)
            | Action::Submit(client)
            | Action::Claim(client)
            | Action::Sweep(client)
            | Action::Publish(client)
            | Action::Lead(client)
            | Action::Succeed(client)
            | Action::Fetch(client)
            | Action::Again(client)
            | Action::Withdraw(client) => client::act(self, state, client, action),
            Action::Settle => self.settle(state),
            Action::Look => self.look(state, leader),
            Action::SyncWhatWasFound => {
                let Some(Leading::Looked(fate)) = state.leading else { return };
                state.files.sync_wal();
                state.writer = None;
                self.found(state, fate);
            }
            Action::SettleSlot => {
                let Some(Leading::Settling(fate)) = state.leading else { return };
                self.settle_slot(state, fate);
            }
            Action::BeginBatch => self.begin_batch(state, leader),
            Action::Take => self.take(state),
            Action::Execute => self.execute(state),
            Action::EndEmptyBatch => {
                state.writer = None;
                state.leading = Some(Leading::Serving);
            }
            Action::Answer => self.answer(state),
            Action::AcceptTurn => self.accept_turn(state, leader),
            Action::PassOver => {
                let (slot, _) = state.first_pending().expect("a turn waits");
                state.free(slot);
            }
            Action::BeginTurn => self.begin_turn(state, leader),
            Action::Release => self.release(state, leader),
            Action::Restart => self.restart(state),
            Action::Commit => self.commit_step(state),
            Action::Checkpoint => self.checkpoint_step(state),
            Action::Recover => {
                state.files.recover();
                state.recovered_unsynced |= state.files.unsynced() > 0;
            }
            Action::BeginCheckpoint(who) => self.begin_checkpoint(state, who),
            Action::StockBegins => self.stock_begins(state),
            Action::StockDies => {
                state.left.stock_deaths -= 1;
                drop_locks(state, Who::Stock);
            }
            Action::Die(client) => self.die(state, client),
            Action::GiveUp => self.give_up(state, leader),
            Action::End(lost) => *state = self.end(state, lost),
        }
    }
}

/// The kernel drops the locks of a process that dies.
fn drop_locks(state: &mut State, who: Who) {
    if state.writer.is_some_and(|it| it.who == who) {
        state.writer = None;
    }
    if state.checkpoint.is_some_and(|it| it.who == who) {
        state.checkpoint = None;
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first(self.change)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.steps(state, actions);
        self.surroundings(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
