import type { EffectRow } from "../effects";
import { mapped, type Program, question, type Statement } from "../program";
import { EFFECT_ROWS } from "../rows";
import type { Session } from "../session";
import type { NewEffect } from "../store";
import type { ThreadState } from "../thread-state";
import type { OrphanCall } from "./effect-orphans";
import { type RawEffect, toEffect } from "./effect-rows";

/** An undone effect is history: its node task may carry out the side effect again. */
const OF_NODE_TASK = "thread = ? AND node_task_id = ? AND undo_status IS DISTINCT FROM 'done'";
const ANY = `SELECT 1 FROM langgraph_effects WHERE ${OF_NODE_TASK} LIMIT 1`;
const PLAIN = "SELECT seq, id, name, label, input_digest FROM langgraph_effects";
const BY_LABEL = `${PLAIN} WHERE ${OF_NODE_TASK} AND name = ? AND label = ? ORDER BY seq`;
/** Without the name; with it, an engine might read all effects of that name for each call. */
const BY_INPUT = `${PLAIN} WHERE ${OF_NODE_TASK} AND input_digest = ? ORDER BY seq`;
const BY_ID = `${PLAIN} WHERE ${OF_NODE_TASK} AND name = ? AND id = ?`;
const BY_SEQ = EFFECT_ROWS.select("WHERE seq = ?");

interface Plain {
  seq: number;
  id: string;
  name: string;
  label: string;
  input_digest: string | null;
}

/**
 * The journaled effects of a call's node task. A node may have thousands of effects, and each call asks. So they are looked up by
 * index, and only the match is opened and verified.
 */
export class KnownEffects {
  constructor(
    private readonly session: Session,
    private readonly key: ThreadState,
    private readonly call: NewEffect & Pick<OrphanCall, "inputDigest">,
  ) {}

  /** What is asked of it, as far as that doesn't depend on answers. */
  questions(): Statement[] {
    const { thread } = this.key;
    const { nodeTaskId, name, label, labelled, inputDigest, unhappy } = this.call;
    const asked = [question("one", ANY, thread, nodeTaskId), question("all", BY_LABEL, thread, nodeTaskId, name, label)];
    if (labelled) return asked;
    if (inputDigest !== undefined) asked.push(question("all", BY_INPUT, thread, nodeTaskId, inputDigest));
    return [...asked, ...unhappy.map((id) => question("all", BY_ID, thread, nodeTaskId, name, id))];
  }

  *any(): Program<boolean> {
    return (yield* this.session.get(ANY, this.key.thread, this.call.nodeTaskId)) !== undefined;
  }

  /**
   * The effect that the call is, or retries.
   * @throws {TurnsError} CHECKPOINT_CORRUPTED
   */
  *matching(): Program<EffectRow | undefined> {
    return yield* this.#opened(yield* this.#matching());
  }

  /** An effect without input that failed in this attempt. A new call of its name may be a retry, or another side effect. */
  *failedTwin(): Program<EffectRow | undefined> {
    if (this.call.labelled || this.call.inputDigest !== undefined) return undefined;
    return yield* this.#opened((yield* this.#unhappy()).find((row) => row.input_digest === null && row.label.startsWith("#")));
  }

  *#matching(): Program<Plain | undefined> {
    const { labelled, label, inputDigest, taken } = this.call;
    const sameLabel = yield* this.#all(BY_LABEL, label);
    if (labelled) return sameLabel[0];
    const again = (yield* this.#unhappy()).find((row) => inputDigest !== undefined && row.input_digest === inputDigest);
    if (again !== undefined) return again;
    let takenRows: Set<string> | undefined;
    const isFree = (row: Plain): boolean => !(takenRows ??= new Set(taken.values())).has(row.id);
    const ordinal = sameLabel.find(isFree);
    if (inputDigest === undefined || ordinal?.input_digest === inputDigest) return ordinal;
    const { thread } = this.key;
    const { nodeTaskId, name } = this.call;
    const sameInput = yield* this.session.all<Plain>(BY_INPUT, thread, nodeTaskId, inputDigest);
    return sameInput.find((row) => row.name === name && isFree(row)) ?? ordinal;
  }

  /** Those that failed in this attempt, or are in doubt. */
  *#unhappy(): Program<Plain[]> {
    const rows = yield* mapped(this.call.unhappy, (id) => this.#all(BY_ID, id));
    return rows.flat().sort((left, right) => left.seq - right.seq);
  }

  *#all(text: string, last: string): Program<Plain[]> {
    return yield* this.session.all<Plain>(text, this.key.thread, this.call.nodeTaskId, this.call.name, last);
  }

  *#opened(row: Plain | undefined): Program<EffectRow | undefined> {
    const raw = row && (yield* this.session.get<RawEffect>(BY_SEQ, row.seq));
    return raw && toEffect(this.session, this.key.threadId, raw);
  }
}
