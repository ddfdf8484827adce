import type { CommitName } from "../failpoints";
import { detailsOf } from "./commit-failpoints";
import type { CommitQueue, Operation } from "./commit-queue";
import { isWithin, namespaceAbove } from "./namespaces";
import { getCheckpoint, hydrate, listCheckpoints, placeOf } from "./ops/read-checkpoints";
import { lastRun } from "./ops/last-run";
import { questionsAsked } from "./ops/questions-asked";
import { putCheckpoint } from "./ops/put-checkpoint";
import { deltaHistory } from "./ops/delta";
import { effectProbe, effectRecord } from "./ops/effect-record";
import { beginEffect, effectsBehind, getEffect, listEffects, retryEffect, settleEffect, settleUndo } from "./ops/effects";
import { hasLeftovers, removeLeftovers } from "./ops/leftovers";
import { listNames, nameCheckpoint, unnameCheckpoint } from "./ops/names";
import { allRuns, beginRecovery, endRecovery, listRecoveries, recoveryOf, saveRecovery } from "./ops/recoveries";
import { countRewinds, publicRewind, rewindsOf, unfinishedRewind } from "./ops/rewind-records";
import { beginAtOnce, foundCheckpoint } from "./ops/run-start";
import { beatRuns, beginHold, beginRun, endRun } from "./ops/runs";
import { checkLease, deletionOf, foundBy, listRuns, listTasks, removeTombstone } from "./ops/thread-rows";
import { readChunks } from "./ops/values";
import { deleteThread, getThread, listThreads } from "./ops/threads";
import { addTokens, tokenUsage } from "./ops/tokens";
import { graphsOfTurns, insertAction, insertThought } from "./ops/turns";
import { knownNodeTasks, listTurns, openThoughts, saveValidation } from "./ops/read-turns";
import { putWrites } from "./ops/put-writes";
import type { Program } from "./program";
import type { Session } from "./session";
import type { Awaitable, RunRow, Store, When } from "./store";

/** What a store has of its engine's own: the operations that differ, and those that only some engines have. */
interface EngineParts
  extends
    Pick<Store, "space" | "giveBackPages" | "checkpointLog" | "vacuumFully" | "backUp" | "close">,
    Partial<Pick<Store, "hasLeftovers" | "copyThread" | "startVerify" | "listen">> {
  /** The effect with this id, for tests at failpoints. */
  effectToTell?: (id: string) => unknown;
}

/** A heartbeat that waited longer would hold up the next one, and other runs of the process with it. */
const BEAT_BUSY_MS = 3_000;

/** A {@link Store} on any engine: its operations, and how each is committed. */
export function storeOn(session: Session, queue: CommitQueue, { effectToTell, ...own }: EngineParts): Store {
  type Work<A extends unknown[], T> = (session: Session, ...args: A) => Program<T>;
  const operation = <A extends unknown[], T>(work: Work<A, T>, name?: CommitName): Operation<A, T> => ({
    program: work,
    name,
    // Outcomes and marks identify their effect by its id. Outcomes come with the row as it was read.
    details: (...[subject, more]) =>
      detailsOf(typeof subject === "string" ? (effectToTell?.(subject) ?? (Object(more) as { seen?: unknown }).seen) : subject),
  });
  /** Commits before it returns, with everything that was handed in before. */
  const write = <A extends unknown[], T>(work: Work<A, T>, name?: CommitName): ((...args: A) => Awaitable<T>) => {
    const request = operation(work, name);
    return (...args) => queue.now(request, ...args);
  };
  /** For saves that nodes or LangGraph wait for. LangGraph hands in more before the macrotask is over. */
  const save = <A, T>(work: Work<[A], T>, name?: CommitName, more?: Partial<Operation<[A], T>>) => {
    const request = { isLight: true, ...operation(work, name), ...more };
    return (subject: A, when: When = "now"): Awaitable<T> =>
      when === "boundary" ? queue.later(request, subject) : queue.now(request, subject);
  };
  /** For saves of LangGraph: the turns that are saved with them may fail without them. */
  const hasParts = { hasParts: true, saves: (saved: { threadId: string; ns: string }) => saved };
  /** Doesn't wait for the disk: after a power cut no run is running. */
  const mark = <A extends unknown[], T>(work: Work<A, T>, name?: CommitName, busyMs?: number): ((...args: A) => Awaitable<T>) => {
    const request = { ...operation(work, name), ...(busyMs !== undefined && { busyMs }) };
    return (...args) => queue.unsynced(request, ...args);
  };
  const read =
    <A extends unknown[], T>(work: Work<A, T>) =>
    (...args: A) =>
      queue.read((on) => work(on, ...args));
  const atOnce = mark(beginAtOnce, "run-mark");
  const triedAtOnce = async (...args: Parameters<typeof atOnce>) => {
    try {
      return await atOnce(...args);
    } catch {
      // A damaged row, or the server: beginning step by step tells.
      return undefined;
    }
  };
  const asked = mark(beginRun, "run-mark");
  const [beat, leave] = [mark(beatRuns, undefined, BEAT_BUSY_MS), mark(beatRuns)];
  const ended = { isLight: true, ...operation(endRun) };
  const tokens = { isLight: true, ...operation(addTokens, "tokens") };
  const lease = { isLight: true, ...operation(checkLease) };
  // What few processes do, or seldom, is loaded when it is asked for.
  return {
    name: session.engine.name,
    system: session.engine.dialect.system,
    address: (threadId, text) => session.sealing.address(threadId, text),
    awaitsKeys: () => !session.isUnlocked,
    putCheckpoint: save(putCheckpoint, "checkpoint", hasParts),
    putWrites: save(putWrites, "writes", hasParts),
    getCheckpoint: read(getCheckpoint),
    lastRun: read(lastRun),
    asked: read(questionsAsked),
    listCheckpoints: read(listCheckpoints),
    placeOf: read(placeOf),
    hydrate: read(hydrate),
    hydratePage: async (...args) => read((await import("./ops/read-pages")).hydratePage)(...args),
    isRemote: session.engine.sendsTogether === true,
    deltaHistory: read(deltaHistory),
    readChunks: read(readChunks),
    saveThought: save(insertThought, "thought", {
      needs: (saved, { threadId, nodeNs, needsSaves }) =>
        needsSaves && saved.threadId === threadId && isWithin(namespaceAbove(nodeNs), saved.ns),
    }),
    saveAction: save(insertAction, "action"),
    addTokens: (of, added) => queue.later(tokens, of, added),
    tokenUsage: read(tokenUsage),
    listTurns: read(listTurns),
    saveValidation: write(saveValidation),
    graphsOfTurns: read(graphsOfTurns),
    openThoughts: read(openThoughts),
    knownNodeTasks: read(knownNodeTasks),
    beginEffect: write(beginEffect, "effect-intent"),
    retryEffect: write(retryEffect, "effect-intent"),
    effectProbe: effectProbe(session),
    effectRecord: (seen, outcome, endedAt) => effectRecord(session, seen, outcome, endedAt),
    settleEffect: write(settleEffect, "effect-outcome"),
    settleUndo: write(settleUndo, "undo-mark"),
    getEffect: read(getEffect),
    listEffects: read(listEffects),
    effectsBehind: read(effectsBehind),
    listTasks: read(listTasks),
    listThreads: read(listThreads),
    getThread: read(getThread),
    deleteThread: write(deleteThread),
    hasLeftovers: read(hasLeftovers),
    removeLeftovers: write((_, isAlive: (run: RunRow) => boolean) => removeLeftovers(session, isAlive)),
    deletionOf: read(deletionOf),
    foundBy: read(foundBy),
    reuseThread: write(removeTombstone),
    copyThread: async (order) => {
      await queue.now({ program: (await import("./ops/thread-copy")).copyAtOnce }, order);
      return true;
    },
    prunePlan: async (...args) => read((await import("./ops/prune")).prunePlan)(...args),
    pruneBatch: async (...args) => write((await import("./ops/prune")).pruneBatch, "prune")(...args),
    sweepPlan: async (...args) => read((await import("./ops/prune-sweep")).sweepPlan)(...args),
    unswept: async (...args) => read((await import("./ops/prune-sweep")).unswept)(...args),
    pagesToSweep: async (...args) => read((await import("./ops/prune-sweep")).pagesToSweep)(...args),
    sweepBatch: async (...args) => write((await import("./ops/prune-sweep")).sweepBatch)(...args),
    idleThread: async (...args) => read((await import("./ops/prune")).idleThread)(...args),
    deleteIdleThread: async (...args) => write((await import("./ops/prune")).deleteIdleThread)(...args),
    threadsOfRuns: async (...args) => read((await import("./ops/prune")).threadsOfRuns)(...args),
    nameCheckpoint: write(nameCheckpoint),
    listNames: read(listNames),
    unnameCheckpoint: write(unnameCheckpoint),
    beginRun: async (run, guard, graphRuns = []) => {
      const begun = session.engine.sendsTogether === true ? await triedAtOnce(run, graphRuns) : undefined;
      if (begun === undefined) return void (await asked(run, guard));
      const { found } = begun;
      return found && { ...found, checkpoint: (remembered) => queue.read((on) => foundCheckpoint(on, found, remembered)) };
    },
    beginHold: mark(beginHold, "run-mark"),
    beatRuns: (runIds, at) => (at > 0 ? beat : leave)(runIds, at),
    checkLease: (held, when = "now") =>
      when === "boundary" ? queue.later(lease, held) : queue.read((on) => checkLease(on, held)),
    endRun: (runId, when = "now", ran) =>
      when === "boundary" ? queue.later(ended, runId, ran) : queue.unsynced(ended, runId, ran),
    listRuns: read(listRuns),
    allRuns: read(allRuns),
    beginRecovery: mark(beginRecovery, "run-mark"),
    saveRecovery: write(saveRecovery),
    endRecovery: write(endRecovery),
    recoveryOf: read(recoveryOf),
    listRecoveries: read(listRecoveries),
    countBehind: async (...args) => read((await import("./ops/rewinds")).countBehind)(...args),
    prunedSeq: async (...args) => read((await import("./ops/rewinds")).prunedSeq)(...args),
    rewind: async (...args) => write((await import("./ops/rewinds")).rewind, "rewind")(...args),
    beginRewind: async (...args) => write((await import("./ops/rewinds")).beginRewind, "rewind-intent")(...args),
    abandonRewind: async (...args) => write((await import("./ops/rewinds")).abandonRewind)(...args),
    unfinishedRewind: read(function* (on, threadId: string) {
      const found = yield* unfinishedRewind(on, threadId);
      return found && publicRewind(found);
    }),
    listRewinds: read(rewindsOf),
    countRewinds: read(countRewinds),
    seqBeforeWorkOn: async (...args) => read((await import("./ops/rewinds")).seqBeforeWorkOn)(...args),
    takeBack: async (...args) => write((await import("./ops/rewinds")).takeBack, "take-back")(...args),
    departure: async (...args) => read((await import("./ops/moves")).departure)(...args),
    destination: async (...args) => read((await import("./ops/moves")).destination)(...args),
    isHeldBy: async (...args) => read((await import("./ops/moves")).isHeldBy)(...args),
    rowsToMove: async (...args) => read((await import("./ops/move-rows")).rowsToMove)(...args),
    partToMove: async (...args) => read((await import("./ops/move-rows")).partToMove)(...args),
    listsToMove: async () => new (await import("./ops/move-lists")).ListsOfThread(),
    beginArrival: async (...args) => write((await import("./ops/moves")).beginArrival)(...args),
    saveMoved: async (...args) => write((await import("./ops/moves")).saveMoved, "move-rows")(...args),
    abandonArrival: async (...args) => write((await import("./ops/moves")).abandonArrival)(...args),
    publishArrival: async (...args) => write((await import("./ops/moves")).publishArrival, "move-publish")(...args),
    holdDeparture: async (...args) => write((await import("./ops/moves")).holdDeparture, "move-hold")(...args),
    releaseDeparture: async (...args) => write((await import("./ops/moves")).releaseDeparture)(...args),
    endDeparture: async (...args) => write((await import("./ops/moves")).endDeparture, "move-end")(...args),
    reseal: async (after) => write((await import("./ops/rotate")).reseal)(after),
    retireKeys: async () => write((await import("./ops/rotate")).retireKeys)(),
    startVerify: async (threadId, isGraph) => {
      const { startVerify } = await import("./ops/verify");
      const step = await queue.read((on) => startVerify(on, threadId, isGraph));
      return { step: () => queue.read(step) };
    },
    standing: async (...args) => {
      const { standing } = await import("./ops/changes");
      return queue.readCommitted((on) => standing(on, ...args));
    },
    changesBehind: async (query) => {
      const { changesBehind } = await import("./ops/changes");
      return queue.readCommitted((on) => changesBehind(on, query));
    },
    version: () => session.engine.version?.(),
    inspect: {
      activity: async (...args) => read((await import("./ops/inspect")).activity)(...args),
      checkpointBehind: async (...args) => read((await import("./ops/inspect")).checkpointBehind)(...args),
      runs: async () => read((await import("./ops/inspect")).allRuns)(),
      unfinishedRewinds: async () => read((await import("./ops/inspect")).unfinishedRewinds)(),
      rewindToTakeBack: async (...args) => read((await import("./ops/inspect")).rewindToTakeBack)(...args),
      openEffects: async (...args) => read((await import("./ops/inspect")).openEffects)(...args),
      threadsWithSpecialWrites: async (...args) => read((await import("./ops/inspect")).threadsWithSpecialWrites)(...args),
      turnsBefore: async (...args) => read((await import("./ops/inspect")).turnsBefore)(...args),
      taskTokens: async (...args) => read((await import("./ops/inspect")).taskTokens)(...args),
      turnsOfNodeTasks: async (...args) => read((await import("./ops/inspect")).turnsOfNodeTasks)(...args),
      writers: async (...args) => read((await import("./ops/inspect")).writers)(...args),
      shortText: async (...args) => read((await import("./ops/inspect")).shortText)(...args),
      commonPrefix: async (...args) => read((await import("./ops/inspect")).commonPrefix)(...args),
      tableSizes: async () => read((await import("./ops/inspect")).tableSizes)(),
      threadSizes: async (...args) => read((await import("./ops/inspect")).threadSizes)(...args),
      channelSizes: async (...args) => read((await import("./ops/inspect")).channelSizes)(...args),
      texts: async (...args) => read((await import("./ops/inspect")).texts)(...args),
      settings: async () => read((await import("./ops/inspect")).settings)(),
      schemaDrift: async () => read((await import("./ops/inspect")).schemaDrift)(),
      migrations: async () => read((await import("./ops/inspect")).migrations)(),
      keyIds: async () => read((await import("./ops/inspect")).keyIds)(),
      effectIds: async (...args) => read((await import("./ops/inspect")).effectIds)(...args),
    },
    committed: () => queue.behind(() => undefined),
    isOpen: () => session.engine.open,
    ...own,
  };
}
