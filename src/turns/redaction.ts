import { copyOf, decode, encode, type EncodeOptions, NO_COPY } from "../codec";
import { describe, TurnsError } from "../errors";
import type { SaverEmitter } from "../events";
import type { Logger } from "../logger";
import type { PackedText, TurnStatus } from "../store/store";
import { once } from "../values";
import { asRecord } from "./state-of-turn";
import type { TurnToRedact } from "./turn-to-redact";

/** What a turn's row is to hold: what it always holds, a value instead, or nothing. */
export type Content = { as: "full"; value: unknown } | { as: "redacted"; value: unknown } | { as: "none"; value?: undefined };

/** A turn without its state. */
export type Redacted = Omit<TurnToRedact, "state" | "graphId" | "taskId" | "status"> & {
  graphId: string | undefined;
  taskId: string | undefined;
  status: TurnStatus | undefined;
};

export interface RedactionParts extends EncodeOptions {
  redact?: ((turn: TurnToRedact) => Record<string, unknown> | undefined) | undefined;
  turns: "full" | "metadata" | "off";
  logger: Logger;
}

/**
 * Decides what of a turn is saved (S4.6). It fails closed: whatever goes wrong with the user's `redact`, the turn is saved without content,
 * and the graph goes on.
 */
export class Redaction {
  readonly #parts: RedactionParts;
  readonly #events: SaverEmitter;

  constructor(parts: RedactionParts, events: SaverEmitter) {
    this.#parts = parts;
    this.#events = events;
  }

  /** Whether there are to be rows at all. */
  get recordsTurns(): boolean {
    return this.#parts.turns !== "off";
  }

  /** Whether rows hold what they would hold by themselves. */
  get keepsAll(): boolean {
    return this.#parts.turns === "full" && this.#parts.redact === undefined;
  }

  /** @param name what a state that is no record is called in one */
  contentOf(turn: Redacted, stateOf: () => unknown, name: string): Content {
    const { redact, turns } = this.#parts;
    if (turns !== "full") return { as: "none" };
    if (redact === undefined) return { as: "full", value: stateOf() };
    try {
      const { graphId, taskId, status, ...rest } = turn;
      const value: unknown = redact({
        ...rest,
        ...(graphId === undefined ? {} : { graphId }),
        ...(taskId === undefined ? {} : { taskId }),
        ...(status === undefined ? {} : { status }),
        state: this.copied(asRecord(stateOf(), name)),
      });
      if (value === undefined) return { as: "none" };
      if (isPlainRecord(value)) return { as: "redacted", value };
      if (value instanceof Promise) value.catch(() => undefined);
      throw notRedacted(value);
    } catch (error) {
      return this.failed(turn, error);
    }
  }

  /**
   * The text of content that is not full, packed when it is asked for: in the transaction, where a failure must not take the turn along.
   *
   * @param pack of the content's value
   */
  packed(turn: Redacted, { as }: Content, pack: () => PackedText): () => PackedText | undefined {
    if (as === "none") return () => undefined;
    return once(() => {
      try {
        return pack();
      } catch (error) {
        this.failed(turn, error);
        return undefined;
      }
    });
  }

  /** Reports it, without a word of what the error says: it may quote what was to be kept out. */
  failed({ threadId, nodeName, turnType }: Redacted, cause: unknown): Content {
    const error = TurnsError.is(cause, "REDACTION_FAILED") ? cause : redactionFailed(cause);
    // It may fail within a transaction; listeners hear of it afterwards.
    queueMicrotask(() => {
      this.#parts.logger.error(
        { threadId, nodeName, turnType },
        "a turn is saved without content, because it could not be redacted",
      );
      this.#events.tell("turn_failed", { threadId, nodeName, turnType, error });
    });
    return { as: "none" };
  }

  /** What the graph changes later does not get into it, nor what is changed in it into the graph. */
  copied(state: Record<string, unknown>): Record<string, unknown> {
    const copies = Object.keys(state).flatMap((key) => {
      const copy = this.#copyOf(state[key]);
      return copy === NO_COPY ? [] : [[key, copy] as const];
    });
    return Object.fromEntries(copies);
  }

  #copyOf(value: unknown): unknown {
    const copy = copyOf(value);
    if (copy !== NO_COPY) return copy;
    try {
      return decode(encode(value, this.#parts));
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
    what: "what the option `redact` returned",
    expected: "an object of named values, or undefined",
    found: typeof value === "string" ? "a string" : describe(value),
    remedy: "The turn was saved without content. `redact` must answer at once, not with a promise.",
  });
}

function redactionFailed(cause: unknown): TurnsError {
  return new TurnsError("REDACTION_FAILED", {
    what: "the option `redact`",
    expected: "what a turn is to hold",
    found: "an error, or what cannot be saved",
    remedy: "The turn was saved without content; see the cause.",
    cause,
  });
}
