import { chunkAddresses, encode, type EncodeOptions } from "../codec";
import { TurnsError } from "../errors";
import { reasonOf } from "./failures";
import { loaded, type UserSerde } from "../serde";
import type { EffectRow } from "../store/effects";
import type { Awaitable, PackedText, Store } from "../store/store";
import type { Values } from "../values";

/** Longer results are stored in parts, as values are. */
const ONE_PIECE_MAX = 65_536;

/**
 * Converts inputs and outcomes of effects to and from their stored form, like all values: through the codec or the user's serde.
 */
export class EffectContent {
  constructor(
    private readonly store: Store,
    private readonly values: Values,
    private readonly serde: UserSerde | undefined,
  ) {}

  /** Passes on a value's text, as the value is now. @throws {TurnsError} UNSERIALIZABLE_VALUE; then `commit` was not called */
  async packed<T>(threadId: string, value: unknown, what: string, commit: (packed: PackedText) => Awaitable<T>): Promise<T> {
    if (this.serde !== undefined) {
      return this.serde.inOrder(this.serde.dump(value, what), (own) => commit(this.values.text(threadId, own)));
    }
    return commit(this.values.text(threadId, value));
  }

  /** @returns the text and, if the result itself couldn't be saved, the reason; the text then holds the reason too */
  async ofResult(threadId: string, result: unknown): Promise<{ text: PackedText | undefined; refused: Error | undefined }> {
    if (result === undefined) return { text: undefined, refused: undefined };
    try {
      return { text: this.values.text(threadId, { result: await this.#own(result) }), refused: undefined };
    } catch (error) {
      if (!TurnsError.is(error, "UNSERIALIZABLE_VALUE")) throw error;
      return { text: this.values.text(threadId, { unsaved: reasonOf(error) }), refused: error };
    }
  }

  /** {@link ofResult} without waiting, in one piece; undefined if that's impossible. @throws {TurnsError} UNSERIALIZABLE_VALUE */
  inOnePiece(result: unknown, options: EncodeOptions): { text: string | undefined } | undefined {
    if (this.serde !== undefined) return undefined;
    if (result === undefined) return { text: undefined };
    const text = encode({ result }, options);
    return text.length > ONE_PIECE_MAX ? undefined : { text };
  }

  async ofError(threadId: string, error: unknown): Promise<PackedText> {
    try {
      return this.values.text(threadId, { error: await this.#own(error) });
    } catch {
      const { name, message } = (error ?? {}) as { name?: unknown; message?: unknown };
      const plain = new Error(typeof message === "string" ? message : String(error));
      if (typeof name === "string") plain.name = name;
      return this.values.text(threadId, { error: await this.#own(plain) });
    }
  }

  /** The outcome of an effect: an object with `result`, `error` or `unsaved`. */
  async outcomeOf(row: EffectRow): Promise<unknown> {
    return this.#read(row, row.outcome);
  }

  /** Why the result of a completed effect isn't known. */
  async unsavedOf(row: EffectRow): Promise<string | undefined> {
    if (row.status !== "done") return undefined;
    const { unsaved } = ((await this.outcomeOf(row)) ?? {}) as { unsaved?: unknown };
    return typeof unsaved === "string" ? unsaved : undefined;
  }

  async inputOf(row: EffectRow): Promise<unknown> {
    return loaded(this.serde, await this.#read(row, row.input));
  }

  async #read({ threadId }: EffectRow, text: string | undefined): Promise<unknown> {
    if (text === undefined) return undefined;
    const addresses = chunkAddresses(text);
    const chunks = addresses.length === 0 ? new Map<string, string>() : await this.store.readChunks(threadId, addresses);
    const value = this.values.decoded(threadId, text, { generation: "", chunks });
    if (typeof value !== "object" || value === null) return value;
    for (const part of ["result", "error"]) {
      const holder = value as Record<string, unknown>;
      if (Object.hasOwn(holder, part)) holder[part] = await loaded(this.serde, holder[part]);
    }
    return value;
  }

  async #own(value: unknown): Promise<unknown> {
    return this.serde === undefined ? value : this.serde.dump(value, "the outcome of an effect");
  }
}
