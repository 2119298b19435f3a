"""The loop of a study: choose, send, keep, tell. What was decoded is journaled before its worker gets more to do.

Knows nothing of Ray or vLLM (a Pool is given) nor of SQL (a RunStore is given). Everything it needs after a
crash is in the store: legs journaled, outcomes recorded, trials asked for.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from studies.canaries import canary_failures
from studies.errors import CanaryError
from studies.estimate import eta_seconds
from studies.expected_legs import remaining_legs
from studies.legs import LegOrder, LegPayload, LegRecord, Purpose, Role
from studies.limits import RunLimits
from studies.outcome import StoredOutcome
from studies.passes import OpenTrial
from studies.protocol import WHOLE_TRIALS, LegPlan, leg_key
from studies.shared_legs import legs_for_engine, next_shared_leg
from sweeper.run.lineup import Lineup
from sweeper.run.prepare import Prepared
from sweeper.run.progress import Counts, Progress
from sweeper.run.race import Race
from sweeper.run.retries import Retries
from sweeper.run.session import Session
from sweeper.run.store import RunStore
from sweeper.run.tracks import Track
from sweeper.workers.messages import LegsDone, WorkerFailed, WorkerOrder, WorkerReady
from sweeper.workers.pool import Pool

POLL_SECONDS = 0.5
RECENT_LEGS = 200
"""What the estimate of the time left rests on."""


class Driver:
    """Runs one study to its target on one pool; ``run`` returns when nothing is left or a stop was asked for.

    stopping: asked before each new leg; True lets running legs end, keeps them and returns. legs: which legs a draft
    length and a trial need. identify: the engines are to say what they are, as freezing needs. limits: when to end
    early; with a deadline each draft length gets its share of the time. now: the clock the deadline is read on.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        store: RunStore,
        pool: Pool,
        progress: Progress,
        model_cache: str,
        stopping: Callable[[], bool] = lambda: False,
        legs: LegPlan = WHOLE_TRIALS,
        identify: bool = False,
        limits: RunLimits | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._prepared = prepared
        self._spec = prepared.spec
        self._protocol = prepared.spec.protocol
        self._planner = prepared.spec.planner
        self._store = store
        self._pool = pool
        self._progress = progress
        self._model_cache = model_cache
        self._asked_to_stop = stopping
        self._legs = legs
        self._identify = identify
        self._deadline = None if limits is None else limits.deadline
        self._until_stable = limits is not None and limits.stable
        self._settled = False
        self._now = now
        planner = self._planner
        if limits is not None and limits.half_width_pp is not None:
            planner = planner.model_copy(update={"half_width_pp": limits.half_width_pp})
        self._shared: dict[int, list[LegRecord]] = {}
        self._race = Race(self._protocol, planner, self._shared)
        self._lineup = Lineup(self._spec, store, note=progress.note)
        self._session = Session(self._spec, store, self._race, timed=legs.timed, ended=self._ended)
        self._tracks = {f"w{i}": Track(f"w{i}", i) for i in range(pool.size)}
        self._retries = Retries(leg_retries=self._spec.workers.leg_retries)
        self._engine_seconds = 0.0
        self._decoded: deque[LegRecord] = deque(maxlen=RECENT_LEGS)

    def run(self) -> bool:
        """Measure until the study's target is reached; False when a stop was asked for or a limit came first.

        Raises CanaryError, EngineError, EngineOutOfMemoryError, UsageError, WorkerLostError; what was measured
        until then is stored.
        """
        self._recover()
        while True:
            for track in self._tracks.values():
                if not (track.busy or track.retired or self._stopping()):
                    self._advance(track)
            if not any(track.busy for track in self._tracks.values()):
                return not self._stopping() or self._nothing_left()
            for event in self._pool.wait(POLL_SECONDS):
                if isinstance(event, WorkerReady):
                    self._ready(event)
                elif isinstance(event, LegsDone):
                    self._done(event)
                else:
                    self._failed(event)

    def _stopping(self) -> bool:
        return self._asked_to_stop() or self.limit_reached is not None

    @property
    def limit_reached(self) -> str | None:
        """The limit that keeps new legs from being begun: "deadline", "stable", or None."""
        if self._deadline is not None and self._now() >= self._deadline:
            return "deadline"
        return "stable" if self._settled else None

    def _recover(self) -> None:
        """Take up what an earlier driver left: legs shared by a draft length, trials that were open or have ended."""
        for leg in self._store.shared_legs():
            self._shared.setdefault(leg.order.draft_length, []).append(leg)
        for outcome in self._store.outcomes():
            self._race.end(outcome)
        for trial in self._lineup.recover():
            self._race.update(trial)

    def _nothing_left(self) -> bool:
        held = any(track.group for track in self._tracks.values())
        return not held and not any(self._lineup.pending(k) for k in self._spec.space.draft_length)

    def _shared_of(self, length: int) -> list[LegRecord]:
        return self._shared.setdefault(length, [])

    # -- choose and send ---------------------------------------------------------------------------------------

    def _advance(self, track: Track) -> None:
        """Give an idle worker its next thing to do, or retire it when there is none."""
        if track.engine_id is None:
            length = track.draft_length if track.group else self._choose_length(track)
            if length is None:
                track.retired = True
                return
            self._start_engine(track, length)
            return
        orders = self._next_orders(track)
        if orders:
            track.busy = True
            self._pool.submit(track.worker, orders)
            return
        self._leave(track)
        self._advance(track)

    def _leave(self, track: Track) -> None:
        """End the engine of a worker whose draft length has no work for it, or has had its share of the time."""
        assert track.draft_length is not None
        self._pool.stop(track.worker)
        if track.group:
            self._lineup.give_back(track.group)
            track.group = []
            self._store.event(
                "left", {"draft_length": track.draft_length, "engine_id": track.engine_id, "why": "share of the time"}
            )
            self._progress.note(f"{track.worker}: leaves K={track.draft_length}, which has had its share of the time")
        track.lengths_done.add(track.draft_length)
        track.forget_engine()
        track.draft_length = None

    def _choose_length(self, track: Track) -> int | None:
        """The draft length with work left that the fewest others hold and this worker has not left behind.

        One that was left because of its share of the time is taken up again when there is no other.
        """
        held = [t.draft_length for t in self._tracks.values() if t is not track]
        pending = [k for k in sorted(set(self._spec.space.draft_length)) if self._lineup.pending(k)]
        fresh = [k for k in pending if k not in track.lengths_done]
        if not fresh and self._deadline is not None:
            fresh = pending
            track.lengths_done -= set(pending)
        chosen = min(fresh, key=lambda k: (held.count(k), k), default=None)
        if chosen is not None and self._deadline is not None:
            share = (self._deadline - self._now()) / len(fresh)
            track.until = None if len(fresh) == 1 else self._now() + share
        return chosen

    def _start_engine(self, track: Track, length: int) -> None:
        cores, accelerators = self._pool.placement(track.index)
        track.draft_length = length
        track.busy = True
        self._progress.note(f"{track.worker}: starting an engine for K={length}")
        slices = self._prepared.slices
        self._pool.start(
            WorkerOrder(
                worker=track.worker,
                engine=self._spec.engine,
                protocol=self._protocol,
                gate_unit=self._spec.space.gate_unit,
                draft_length=length,
                slices={name: slices.by_name[name] for name in ("fixed_work", "quality")},
                exemplars=slices.exemplars,
                model_cache=self._model_cache,
                cores=cores,
                accelerators=accelerators,
                seed=self._spec.sampler.seed,
                identify=self._identify,
                shared_prefill=self._planner.audits == "batched",
            )
        )

    def _next_orders(self, track: Track) -> tuple[LegOrder, ...]:
        """The next legs for a worker whose engine runs; none when it is to leave its draft length."""
        length, engine_id = track.draft_length, track.engine_id
        assert length is not None
        assert engine_id is not None
        shared = self._shared_of(length)
        if not track.shared_ready:
            wanted = self._legs.shared(length, self._protocol, self._planner)
            order = next_shared_leg(length, self._protocol, legs=shared, engine_id=engine_id, orders=wanted)
            if order is not None:
                return (order,)
            self._check_canaries(length, [leg for leg in legs_for_engine(shared, engine_id) if not _of_chain(leg)])
            track.shared_ready = True
        if track.until is not None and self._now() >= track.until:
            return self._session.close(track)
        while True:
            if not track.group and not self._fill(track, length, shared):
                return ()
            orders = self._session.next_orders(track, shared)
            if orders:
                return orders

    def _fill(self, track: Track, length: int, shared: Sequence[LegRecord]) -> bool:
        """Give ``track`` its next trials; False when its draft length has none left."""
        if not self._lineup.pending(length):
            return False
        open_lengths = sum(self._lineup.pending(k) for k in set(self._spec.space.draft_length))
        workers = max(1, len(self._tracks) // max(1, open_lengths))
        track.group, left_out = self._lineup.take(length, shared, workers=workers)
        for outcome in left_out:
            self._race.end(outcome)
        for trial in track.group:
            self._race.update(trial)
        return bool(track.group)

    def _check_canaries(self, length: int, shared: list[LegRecord]) -> None:
        failures = canary_failures(length, shared, self._protocol.fixed_work_tokens)
        if failures:
            self._store.distrust({leg.engine_id for leg in shared})
            raise CanaryError("the engine must not be measured: " + "; ".join(failures))

    # -- keep and tell -----------------------------------------------------------------------------------------

    def _ready(self, event: WorkerReady) -> None:
        track = self._tracks[event.worker]
        track.engine_id = event.engine_id
        track.busy = False
        self._engine_seconds += event.start_seconds
        self._store.engine_started(event)
        self._progress.note(
            f"{event.worker}: engine {event.engine_id} for K={event.draft_length} ready in {event.start_seconds:.1f} s"
        )

    def _done(self, event: LegsDone) -> None:
        """Journal what a worker decoded, all legs of a batch at once, then put each where it belongs."""
        track = self._tracks[event.worker]
        self._store.record_legs([(record, leg_key(record.order, record.engine_id)) for record in event.records])
        for record in event.records:
            self._retries.leg_finished(event.worker, record.order)
            self._engine_seconds += record.wall_seconds
            self._decoded.append(replace(record, payload=LegPayload()))
            trial = track.trial(record.order.trial)
            if trial is None:
                self._shared_of(record.order.draft_length).append(record)
            else:
                trial.legs.append(record)
        self._session.arrived(track, event.records)
        track.busy = False
        if self._until_stable and any(_of_chain(record) for record in event.records):
            everywhere = not any(self._lineup.pending(k) for k in set(self._spec.space.draft_length))
            self._settled = self._settled or (everywhere and self._race.is_settled())
        for record in event.records:
            self._progress.leg(record, self._counts())

    def _ended(self, outcome: StoredOutcome) -> None:
        self._progress.trial(outcome, self._counts())

    def _failed(self, event: WorkerFailed) -> None:
        """Replace the process; repeat the leg within its budget; give up on causes that would only come again."""
        track = self._tracks[event.worker]
        self._pool.stop(event.worker)
        track.forget_engine()
        label = event.order.label if event.order else f"engine start K={track.draft_length}"
        self._store.event("worker_failed", {"kind": event.kind, "leg": label, "message": event.message})
        trial = None if event.order is None else track.trial(event.order.trial)
        attempts = 0 if trial is None else self._race.update(trial).attempts
        given_up = self._retries.verdict(event, doing=label, attempts=attempts)
        if given_up is not None:
            assert trial is not None
            self._session.give_up(track, trial, given_up)
            return
        if event.order is not None:
            self._store.event("leg_retried", {"leg": label, "message": event.message})
        self._progress.note(f"{event.worker}: {event.message}; repeating {label}")

    def _counts(self) -> Counts:
        done, total = self._store.finished_count(), self._lineup.target
        return Counts(done, total, self._store.legs_done(), self._engine_seconds, self._eta_seconds(total - done))

    def _eta_seconds(self, cells_left: int) -> float | None:
        hands: list[OpenTrial] = [trial for track in self._tracks.values() for trial in track.group]
        unprepared = sum(not self._shared.get(k) for k in set(self._spec.space.draft_length))
        left = remaining_legs(
            self._protocol,
            self._planner,
            open_trials=[trial.legs for trial in hands],
            cells_not_begun=max(0, cells_left - len(hands)),
            draft_lengths_to_prepare=unprepared,
        )
        return eta_seconds(self._decoded, left, workers=len(self._tracks))


def _of_chain(leg: LegRecord) -> bool:
    """A strict leg between the asd legs of trials: its triplets judge it."""
    return leg.order.purpose is Purpose.FIXED_WORK and leg.order.role is Role.STRICT
