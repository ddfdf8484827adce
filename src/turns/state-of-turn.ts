import { TurnsError } from "../errors";
import type { TurnRow } from "../store/store";

/** Channels that carry LangGraph's own bookkeeping and are no part of the state a node sees. */
const BOOKKEEPING = /^(__(?!root__)|branch:|join:)/;

/**
 * The state of a turn, hydrated: a Thought refers to the checkpoint it started from instead of copying it, so its state is read
 * from there, unless the node had an input of its own (Send, functional tasks).
 *
 * @param stored the turn's own serialized state, decoded
 * @param load the channel values of the checkpoint that a Thought started from; undefined if it is not there any more
 * @throws {TurnsError} CHECKPOINT_NOT_FOUND if a Thought's checkpoint is gone, UNDECODABLE_VALUE if the row cannot be read,
 *   TURN_NOT_KEPT if it was saved without content
 */
export function stateOfTurn(
  turn: TurnRow,
  stored: unknown,
  load: (turn: TurnRow) => Record<string, unknown> | undefined,
): Record<string, unknown> {
  if (turn.stateFormat === "none") throw notKept(turn);
  if (turn.stateFormat === "state") return asRecord(stored, "value");
  if (turn.stateFormat === "update") return asRecord(stored, "output");
  const own = asRecord(stored, "value");
  if (Object.hasOwn(own, "input")) return asRecord(own["input"], "input");
  if (Object.hasOwn(own, "input_not_saved")) throw inputNotSaved(turn, own["input_not_saved"]);
  if (turn.checkpointId === undefined) return {};
  const values = load(turn);
  if (values === undefined) throw checkpointGone(turn);
  return withoutBookkeeping(values);
}

/** The channels that are state. */
export function withoutBookkeeping(values: Record<string, unknown>): Record<string, unknown> {
  const state: Record<string, unknown> = {};
  for (const channel of Object.keys(values)) {
    // No setter can run: `__proto__` counts as bookkeeping.
    if (!BOOKKEEPING.test(channel)) state[channel] = values[channel];
  }
  return state;
}

/** The value, or an object with the value under a name. */
export function asRecord(value: unknown, name: string): Record<string, unknown> {
  const plain = typeof value === "object" && value !== null && !Array.isArray(value);
  const prototype: unknown = plain ? Object.getPrototypeOf(value) : undefined;
  return prototype === Object.prototype || prototype === null ? (value as Record<string, unknown>) : { [name]: value };
}

function checkpointGone(turn: TurnRow): TurnsError {
  return new TurnsError("CHECKPOINT_NOT_FOUND", {
    what: `the state of turn ${turn.id}`,
    expected: `checkpoint ${turn.checkpointId ?? ""} that the turn started from`,
    found: "no such checkpoint",
    remedy: "It was deleted after the turn was recorded; the turn itself is still there.",
    data: { id: turn.id, checkpointId: turn.checkpointId },
  });
}

function notKept(turn: TurnRow): TurnsError {
  return new TurnsError("TURN_NOT_KEPT", {
    what: `the state of turn ${turn.id}, node ${JSON.stringify(turn.nodeName)}`,
    expected: "a turn that was saved with its content",
    found: "one that was saved without",
    remedy: "The options `redact` and `turns` of the saver that recorded it say what is kept.",
    data: { id: turn.id },
  });
}

function inputNotSaved(turn: TurnRow, reason: unknown): TurnsError {
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    what: `the input of turn ${turn.id}, node ${JSON.stringify(turn.nodeName)}`,
    expected: "an input that can be saved",
    found: String(reason),
    remedy: "The turn itself was recorded; only what the node was called with is not known.",
    data: { id: turn.id },
  });
}
