import { copyOf, decode, encode, type EncodeOptions, NO_COPY } from "../codec";
import { describe, TurnsError } from "../errors";
import type { SaverEmitter } from "../events";
import type { Logger } from "../logger";
import type { UserSerde } from "../serde";
import type { PackedText, TurnState, TurnStatus } from "../store/store";
import type { Values } from "../values";
import { asRecord } from "./turn";
import type { TurnToRedact } from "../options";

/** A turn without its state. */
export type UnsavedTurn = Omit<TurnToRedact, "state" | "graphId" | "taskId" | "status"> & {
  graphId: string | undefined;
  taskId: string | undefined;
  status: TurnStatus | undefined;
};

/** What is kept of a turn's state: all of it, a replacement, nothing, or nothing because its checkpoint has it. */
type Kept = { as: "full"; value: unknown } | { as: "redacted"; value: unknown } | { as: "none" } | { as: "told" };

interface RedactionOptions extends EncodeOptions {
  redact?: ((turn: TurnToRedact) => Record<string, unknown> | undefined) | undefined;
  turns: "full" | "metadata" | "off";
  logger: Logger;
}

/**
 * Decides what of a turn is saved (S4.6), and packs it as it is when the turn is handed in. It fails closed: if the user's
 * `redact` fails, the turn is saved without content, and the graph continues.
 */
export class Redaction {
  readonly #options: RedactionOptions;
  readonly #values: Values;
  readonly #serde: UserSerde | undefined;
  readonly #events: SaverEmitter;

  constructor(options: RedactionOptions, values: Values, serde: UserSerde | undefined, events: SaverEmitter) {
    this.#options = options;
    this.#values = values;
    this.#serde = serde;
    this.#events = events;
  }

  /** Whether turns are recorded at all. */
  get recordsTurns(): boolean {
    return this.#options.turns !== "off";
  }

  /** Whether rows keep their full content. */
  get keepsAll(): boolean {
    return this.#options.turns === "full" && this.#options.redact === undefined;
  }

  /** Whether the user's `redact` decides what rows hold. */
  get asks(): boolean {
    return this.#options.turns === "full" && this.#options.redact !== undefined;
  }

  /**
   * Saves a turn with the content its row should have: at once or, if the user's serde has to encode it first, after everything
   * handed in before.
   *
   * @param state what the node was called with (Thought), or its outcome (Action)
   * @param isTold whether the checkpoint that a Thought starts from contains its state
   * @throws {TurnsError} UNSERIALIZABLE_VALUE for an Action
   */
  inTurn<T>(turn: UnsavedTurn, state: unknown, isTold: boolean, save: (state: TurnState) => T | Promise<T>): T | Promise<T> {
    if (this.#serde === undefined) return save(this.packed(turn, state, isTold));
    const dumped = this.#dumped(this.#serde, turn, this.#keptOf(turn, state, isTold));
    return this.#serde.inOrder(dumped, (kept) => save(this.#packed(turn, kept)));
  }

  /** The content a turn's row should have, before a serde. Parameters and errors are those of {@link inTurn}. */
  packed(turn: UnsavedTurn, state: unknown, isTold: boolean): TurnState {
    return this.#packed(turn, this.#keptOf(turn, state, isTold));
  }

  /** Separates the copy from the graph: later changes on either side don't reach the other. */
  copied(state: Record<string, unknown>): Record<string, unknown> {
    const copies = Object.keys(state).flatMap((key) => {
      const copy = this.#copyOf(state[key]);
      return copy === NO_COPY ? [] : [[key, copy] as const];
    });
    return Object.fromEntries(copies);
  }

  #keptOf(turn: UnsavedTurn, state: unknown, isTold: boolean): Kept {
    const { redact, turns } = this.#options;
    if (turns !== "full") return { as: "none" };
    if (redact === undefined) return isTold ? { as: "told" } : { as: "full", value: state };
    try {
      const { graphId, taskId, status, ...rest } = turn;
      const value: unknown = redact({
        ...rest,
        ...(graphId === undefined ? {} : { graphId }),
        ...(taskId === undefined ? {} : { taskId }),
        ...(status === undefined ? {} : { status }),
        state: this.copied(asRecord(state, turn.turnType === "Thought" ? "input" : "output")),
      });
      if (value === undefined) return { as: "none" };
      if (isPlainRecord(value)) return { as: "redacted", value };
      if (value instanceof Promise) value.catch(() => undefined);
      throw notRedacted(value);
    } catch (error) {
      return this.#failed(turn, error);
    }
  }

  async #dumped(serde: UserSerde, turn: UnsavedTurn, kept: Kept): Promise<Kept> {
    if (kept.as === "none" || kept.as === "told") return kept;
    try {
      return { as: kept.as, value: await serde.dump(kept.value, "a turn") };
    } catch (error) {
      if (kept.as === "redacted") return this.#failed(turn, error);
      throw error;
    }
  }

  #packed(turn: UnsavedTurn, kept: Kept): TurnState {
    const { threadId, turnType } = turn;
    if (kept.as === "none") return { format: "none", packed: undefined };
    if (kept.as === "told") return { format: "checkpoint", packed: undefined };
    if (kept.as === "full") {
      return turnType === "Action"
        ? { format: "update", packed: this.#values.text(threadId, kept.value) }
        : { format: "checkpoint", packed: this.#input(threadId, kept.value) };
    }
    try {
      return { format: turnType === "Action" ? "update" : "state", packed: this.#values.text(threadId, kept.value) };
    } catch (error) {
      this.#failed(turn, error);
      return { format: "none", packed: undefined };
    }
  }

  /**
   * LangGraph itself never saves a functional task's arguments, so they may be unserialisable. The turn matters more than they
   * do.
   */
  #input(threadId: string, value: unknown): PackedText {
    try {
      const { text, parts } = this.#values.text(threadId, value);
      return { text: `{"input":${text}}`, parts };
    } catch (error) {
      if (!TurnsError.is(error, "UNSERIALIZABLE_VALUE")) throw error;
      return { text: JSON.stringify({ input_not_saved: error.message }), parts: [] };
    }
  }

  /** Reports the failure without the error's text, which may quote what was to be kept out. */
  #failed({ threadId, nodeName, turnType }: UnsavedTurn, cause: unknown): Kept {
    const error = TurnsError.is(cause, "REDACTION_FAILED") ? cause : redactionFailed(cause);
    // An Action made from its writes fails within their transaction; listeners hear of it afterwards.
    queueMicrotask(() => {
      this.#options.logger.error(
        { threadId, nodeName, turnType },
        "a turn is saved without content, because it could not be redacted",
      );
      this.#events.emit("turn_failed", { threadId, nodeName, turnType, error });
    });
    return { as: "none" };
  }

  #copyOf(value: unknown): unknown {
    const copy = copyOf(value);
    if (copy !== NO_COPY) return copy;
    try {
      return decode(encode(value, this.#options));
    } catch {
      return NO_COPY;
    }
  }
}

function isPlainRecord(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function notRedacted(value: unknown): TurnsError {
  return new TurnsError("REDACTION_FAILED", {
    problem: `The option "redact" returned ${typeof value === "string" ? "a string" : describe(value)}.`,
    remedy: "The turn was saved without content. Return an object of named values, or undefined; not a promise.",
  });
}

function redactionFailed(cause: unknown): TurnsError {
  return new TurnsError("REDACTION_FAILED", {
    problem: 'The option "redact" threw, or returned what can\'t be saved.',
    remedy: "The turn was saved without content; see the cause.",
    cause,
  });
}
