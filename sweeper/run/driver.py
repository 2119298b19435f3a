"""The loop of a study: choose, send, keep, tell. One leg is journaled before the next of its worker is sent.

Knows nothing of Ray or vLLM (a Pool is given) nor of SQL (a RunStore is given). Everything it needs after a
crash is in the store: legs journaled, outcomes recorded, trials asked for.
"""

from collections.abc import Callable
from dataclasses import replace

from studies.errors import CanaryError
from studies.estimate import eta_seconds, remaining_legs
from studies.legs import LegOrder, LegPayload, LegRecord
from studies.measurement import Measurement, measure_cell
from studies.outcome import StoredOutcome
from studies.protocol import WHOLE_TRIALS, LegPlan, canary_failures, leg_key, next_shared_leg
from studies.shared_legs import legs_for_engine
from studies.spec import StudySpec
from sweeper.run.prepare import Prepared
from sweeper.run.progress import Counts, Progress
from sweeper.run.proposals import Proposals
from sweeper.run.retries import Retries
from sweeper.run.store import RunStore, StudyStore
from sweeper.run.tracks import Track, TrialInHand
from sweeper.workers.messages import LegDone, WorkerFailed, WorkerOrder, WorkerReady
from sweeper.workers.pool import Pool

POLL_SECONDS = 0.5


class Driver:
    """Runs one study to its target on one pool; ``run`` returns when nothing is left or a stop was asked for.

    stopping: asked before each new leg; True lets running legs end, keeps them and returns. legs: which legs a draft
    length and a trial need. identify: the engines are to say what they are, as freezing needs.
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
    ) -> None:
        self._prepared = prepared
        self._spec = prepared.spec
        self._protocol = prepared.spec.protocol
        self._store = store
        self._proposals = Proposals(prepared.spec, store, note=progress.note)
        self._pool = pool
        self._progress = progress
        self._model_cache = model_cache
        self._stopping = stopping
        self._legs = legs
        self._identify = identify
        self._shared: dict[int, list[LegRecord]] = {}
        self._tracks = {f"w{i}": Track(f"w{i}", i) for i in range(pool.size)}
        self._orphans: list[TrialInHand] = []
        self._retries = Retries(self._protocol, leg_retries=self._spec.workers.leg_retries)
        self._engine_seconds = 0.0
        self._decoded: list[LegRecord] = []

    def run(self) -> bool:
        """Measure until the study's target is reached; False when a stop was asked for first.

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
                elif isinstance(event, LegDone):
                    self._done(event)
                else:
                    self._failed(event)

    @staticmethod
    def nothing_to_do(spec: StudySpec, store: StudyStore) -> bool:
        """True when every cell the study wants has ended, so that no worker need be started."""
        proposals = Proposals(spec, store)
        for _, cell in store.finished_trials():
            proposals.taken(cell)
        return not store.unfinished_trials() and not any(proposals.pending(k) for k in spec.space.draft_length)

    def _recover(self) -> None:
        """Take up what an earlier driver left: legs shared by a draft length, trials that were running."""
        for leg in self._store.shared_legs():
            self._shared.setdefault(leg.order.draft_length, []).append(leg)
        for number, cell in self._store.unfinished_trials():
            self._proposals.taken(cell)
            self._orphans.append(TrialInHand(number, cell, self._store.trial_legs(number)))
        for _, cell in self._store.finished_trials():
            self._proposals.taken(cell)

    def _nothing_left(self) -> bool:
        lengths = self._spec.space.draft_length
        return not self._orphans and not any(self._proposals.pending(k) for k in lengths) and not self._in_hand()

    def _in_hand(self) -> bool:
        return any(track.trial is not None for track in self._tracks.values())

    # -- choose and send ---------------------------------------------------------------------------------------

    def _advance(self, track: Track) -> None:
        """Give an idle worker its next thing to do, or retire it when there is none."""
        if track.engine_id is None:
            length = track.draft_length if track.trial is not None else self._choose_length(track)
            if length is None:
                track.retired = True
                return
            self._start_engine(track, length)
            return
        order = self._next_order(track)
        if order is not None:
            track.busy = True
            self._pool.submit(track.worker, order)
            return
        self._pool.stop(track.worker)
        assert track.draft_length is not None
        track.lengths_done.add(track.draft_length)
        track.forget_engine()
        track.draft_length = None
        self._advance(track)

    def _choose_length(self, track: Track) -> int | None:
        """The draft length with work left that the fewest others hold and this worker has not left behind."""
        held = [t.draft_length for t in self._tracks.values() if t is not track]
        open_lengths = [
            k
            for k in sorted(set(self._spec.space.draft_length))
            if k not in track.lengths_done
            and (self._proposals.pending(k) or any(o.cell.draft_length == k for o in self._orphans))
        ]
        return min(open_lengths, key=lambda k: (held.count(k), k), default=None)

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
            )
        )

    def _next_order(self, track: Track) -> LegOrder | None:
        """The next leg for a worker whose engine runs; None when its draft length has no work left."""
        length, engine_id = track.draft_length, track.engine_id
        assert length is not None
        assert engine_id is not None
        shared = self._shared.setdefault(length, [])
        if not track.shared_ready:
            wanted = self._legs.shared(length, self._protocol)
            order = next_shared_leg(length, self._protocol, legs=shared, engine_id=engine_id, orders=wanted)
            if order is not None:
                return order
            self._check_canaries(length, legs_for_engine(shared, engine_id))
            track.shared_ready = True
        while True:
            if track.trial is None:
                track.trial = self._take_trial(length)
            if track.trial is None:
                return None
            trial = track.trial
            order = self._legs.next_of_trial(
                trial.cell, trial.number, self._protocol, legs=trial.legs, shared=shared, engine_id=engine_id
            )
            if order is not None:
                return order
            self._conclude(trial, measure_cell(trial.cell, trial.legs, shared, self._protocol))
            track.trial = None

    def _check_canaries(self, length: int, shared: list[LegRecord]) -> None:
        failures = canary_failures(length, shared, self._protocol.fixed_work_tokens)
        if failures:
            self._store.distrust({leg.engine_id for leg in shared})
            raise CanaryError("the engine must not be measured: " + "; ".join(failures))

    def _take_trial(self, length: int) -> TrialInHand | None:
        for orphan in self._orphans:
            if orphan.cell.draft_length == length:
                self._orphans.remove(orphan)
                return orphan
        return self._proposals.next(length)

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

    def _done(self, event: LegDone) -> None:
        record = event.record
        track = self._tracks[event.worker]
        self._store.record_leg(record, leg_key(record.order, record.engine_id))
        self._retries.leg_finished(event.worker, record.order)
        self._engine_seconds += record.wall_seconds
        self._decoded.append(replace(record, payload=LegPayload()))
        if record.order.trial is None:
            self._shared.setdefault(record.order.draft_length, []).append(record)
        else:
            assert track.trial is not None
            track.trial.legs.append(record)
        track.busy = False
        self._progress.leg(record, self._counts())

    def _conclude(self, trial: TrialInHand, measurement: Measurement) -> None:
        outcome = StoredOutcome(
            trial=trial.number,
            cell=trial.cell,
            state=measurement.state,
            reason=measurement.reason or "",
            throughput_gain_pct=measurement.gain_pct.mean,
            accuracy_change_pp=measurement.accuracy_change_pp.mean,
            measurement=measurement.to_json(),
        )
        self._store.conclude(outcome)
        self._progress.trial(trial.number, trial.cell, measurement, measurement.reason or "", self._counts())

    def _fail_trial(self, trial: TrialInHand, reason: str) -> None:
        self._store.conclude(
            StoredOutcome(
                trial=trial.number,
                cell=trial.cell,
                state="failed",
                reason=reason,
                throughput_gain_pct=None,
                accuracy_change_pp=None,
                measurement={},
            )
        )
        self._progress.trial(trial.number, trial.cell, None, reason, self._counts())

    def _failed(self, event: WorkerFailed) -> None:
        """Replace the process; repeat the leg within its budget; give up on causes that would only come again."""
        track = self._tracks[event.worker]
        self._pool.stop(event.worker)
        track.forget_engine()
        label = event.order.label if event.order else f"engine start K={track.draft_length}"
        self._store.event("worker_failed", {"kind": event.kind, "leg": label, "message": event.message})
        given_up = self._retries.verdict(event, track.trial, doing=label)
        if given_up is not None:
            assert track.trial is not None
            self._fail_trial(track.trial, given_up)
            track.trial = None
            return
        if event.order is not None:
            self._store.event("leg_retried", {"leg": label, "message": event.message})
        self._progress.note(f"{event.worker}: {event.message}; repeating {label}")

    def _counts(self) -> Counts:
        done, total = len(self._store.finished_trials()), self._proposals.target
        return Counts(done, total, self._store.legs_done(), self._engine_seconds, self._eta_seconds(total - done))

    def _eta_seconds(self, cells_left: int) -> float | None:
        hands = [t.trial for t in self._tracks.values() if t.trial is not None] + self._orphans
        begun: list[list[LegRecord]] = [trial.legs for trial in hands]
        begun += [[] for _ in range(max(0, cells_left - len(begun)))]
        unprepared = sum(k not in self._shared for k in set(self._spec.space.draft_length))
        left = remaining_legs(self._protocol, trials=begun, draft_lengths_to_prepare=unprepared)
        return eta_seconds(self._decoded, left, workers=len(self._tracks))
