import { decode, encode, type EncodeOptions } from "../codec";
import { foundAt, Unserializable, unserializable } from "../codec/failures";
import { TurnsError } from "../errors";
import type {
  Chunk,
  NewValues,
  PackedText,
  PackedValue,
  ReadParts,
  Remembered,
  SavedCheckpoint,
  Store,
  StoredValue,
} from "../store/store";
import { Memory } from "./memory";
import { type Packing, type PackingList, packReference, packValue, rememberSaved } from "./pack";
import { newCourse, unpackText, unpackValue, type Unpacking } from "./unpack";

export { StaleMemory } from "./unpack";

export interface ValuesOptions extends EncodeOptions {
  classInstances: "error" | "plain";
  /** The graph never changes a value in place, so the same object is the same value. */
  immutable: boolean;
  /** How much text to remember, in characters. */
  cacheSize: number;
}

/**
 * The store, as the source of addresses of parts. While it awaits its keys, values are packed when it asks for them, as they
 * were.
 */
export type Addresses = Pick<Store, "address" | "awaitsKeys">;

/**
 * Values between the graph and the store. Packs them into the store's form, rebuilds them from it, and remembers enough in
 * between to do neither twice.
 */
export class Values {
  readonly #options: ValuesOptions;
  readonly #memory: Memory;
  readonly #addresses: Addresses;

  constructor(options: ValuesOptions, addresses: Addresses) {
    this.#options = options;
    this.#memory = new Memory(options.cacheSize, (threadId, text) => addresses.address(threadId, text));
    this.#addresses = addresses;
  }

  /**
   * The values of channels for the store, as they are now. An unchanged value isn't encoded; if the store needs its text, the
   * text is made from our private copy.
   *
   * @throws {TurnsError} UNSERIALIZABLE_VALUE naming the channel and the path in it
   */
  channels({ threadId, ns }: { threadId: string; ns: string }, state: Readonly<Record<string, unknown>>): NewValues {
    const packing = this.#packing(threadId);
    if (this.#addresses.awaitsKeys()) {
      const copies = Object.entries(state).map(
        ([channel, value]) => [channel, inChannel(channel, () => this.#copied(value))] as const,
      );
      return new ValuesAwaitingKeys(copies, (channel, value) => packIn(channel, value, ns, packing));
    }
    const packed = new Map<string, PackedValue>();
    for (const channel of Object.keys(state)) packed.set(channel, packIn(channel, state[channel], ns, packing));
    return { packed };
  }

  /**
   * A value's text that refers to its larger parts.
   * @throws {TurnsError} UNSERIALIZABLE_VALUE
   */
  text(threadId: string, value: unknown): PackedText {
    try {
      const packing = this.#packing(threadId);
      return this.#addresses.awaitsKeys() ? new TextAwaitingKeys(this.#copied(value), packing) : packReference(value, packing);
    } catch (error) {
      throw readable(error);
    }
  }

  /** Remembers what was saved, so that the next save compares instead of encoding. */
  saved({ threadId, ns }: { threadId: string; ns: string }, values: NewValues, saved: SavedCheckpoint): void {
    const memory = this.#memory.thread(threadId);
    memory.isOf(saved.generation);
    memory.forgetStrings();
    for (const [channel, segments] of saved.placed) {
      const packed = values.packed.get(channel) as PackingList;
      rememberSaved(memory, memory.channel(ns, channel), packed, segments, saved.generation, this.#options.immutable);
    }
  }

  remembered(threadId: string): Remembered {
    return this.#memory.thread(threadId);
  }

  forget(threadId: string): void {
    this.#memory.forget(threadId);
  }

  /**
   * The channel values of a checkpoint.
   *
   * @param newest whether the next save is likely to continue from here
   * @throws {StaleMemory} if the memory turned out to be wrong: read again
   * @throws {TurnsError} CHECKPOINT_CORRUPTED, UNDECODABLE_VALUE
   */
  values(
    at: { threadId: string; ns: string },
    stored: ReadParts & { values: ReadonlyMap<string, StoredValue> },
    newest: boolean,
  ): Record<string, unknown> {
    const unpacking = this.#unpacking(at.threadId, stored);
    unpacking.memory.isOf(stored.generation);
    const values: Record<string, unknown> = {};
    for (const [channel, value] of stored.values) {
      define(values, channel, unpackValue(value, newest ? unpacking.memory.channel(at.ns, channel) : undefined, unpacking));
    }
    return values;
  }

  /**
   * Decodes a text with the parts it refers to.
   * @throws as {@link values}
   */
  decoded(threadId: string, text: string, parts: ReadParts): unknown {
    return unpackText(text, this.#unpacking(threadId, parts));
  }

  /** A copy that later changes by the caller don't reach. */
  #copied(value: unknown): unknown {
    return decode(encode(value, this.#options));
  }

  #packing(threadId: string): Packing {
    return { memory: this.#memory.thread(threadId), options: this.#options };
  }

  #unpacking(threadId: string, parts: ReadParts): Unpacking {
    return { threadId, memory: this.#memory.thread(threadId), parts, immutable: this.#options.immutable, course: newCourse() };
  }
}

/**
 * Values of a save that was handed in before the store had its keys, which addresses depend on. They are packed when the store
 * asks for them, because it has the keys then.
 */
class ValuesAwaitingKeys implements NewValues {
  #packed: ReadonlyMap<string, PackedValue> | undefined;

  constructor(
    private readonly copies: readonly (readonly [channel: string, value: unknown])[],
    private readonly pack: (channel: string, value: unknown) => PackedValue,
  ) {}

  get packed(): ReadonlyMap<string, PackedValue> {
    return (this.#packed ??= new Map(this.copies.map(([channel, value]) => [channel, this.pack(channel, value)])));
  }
}

/** {@link ValuesAwaitingKeys} for a text. */
class TextAwaitingKeys implements PackedText {
  #packed: PackedText | undefined;

  constructor(
    private readonly value: unknown,
    private readonly packing: Packing,
  ) {}

  get text(): string {
    return this.#whole.text;
  }

  get parts(): readonly Chunk[] {
    return this.#whole.parts;
  }

  get #whole(): PackedText {
    return (this.#packed ??= packReference(this.value, this.packing));
  }
}

/** Defines the property, because assignment would run the setter of a key like `__proto__`. */
function define(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Turns an error of a getter or a proxy, thrown before the codec looks at it, into the codec's own error. */
function readable(error: unknown): unknown {
  return TurnsError.is(error) ? error : unserializable("", foundAt(error), error);
}

/** @throws {TurnsError} UNSERIALIZABLE_VALUE naming the channel */
function packIn(channel: string, value: unknown, ns: string, packing: Packing): PackedValue {
  try {
    return packValue(value, packing.memory.channel(ns, channel), packing);
  } catch (error) {
    throw namingChannel(channel, error);
  }
}

function inChannel<T>(channel: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw namingChannel(channel, error);
  }
}

/** An error of packing a channel's value. If it's UNSERIALIZABLE_VALUE, it gets the names of channel and node. */
export function namingChannel(channel: string, thrown: unknown, node?: string): unknown {
  const error = readable(thrown);
  return error instanceof Unserializable ? unserializableChannel(channel, error, node) : error;
}

/** LangGraph's channel for the input, and the one for the arguments of Sends. */
const INPUT = "__start__";
const SENDS = "__pregel_tasks";

/** What to do about a value in a channel. Untracked channels help neither the input nor the argument of a Send: LangGraph saves these. */
function remedyFor(channel: string): string {
  const how =
    "Pass it in the config instead, as in graph.invoke(input, { configurable: { thread_id, myValue } }), and read config.configurable.myValue in the node";
  if (channel === INPUT) return `LangGraph saves the whole input, also what is for untracked channels. ${how}`;
  if (channel === SENDS)
    return `LangGraph saves what a Send carries, also what is for untracked channels. Send plain data: new Send("node", { id }). ${how}`;
  return "Remove it from the state, replace it by plain data, or keep it in an untracked channel";
}

function unserializableChannel(channel: string, error: Unserializable, node: string | undefined): TurnsError {
  const told = `channel ${JSON.stringify(channel)}`;
  // LangGraph keeps the input in a channel of its own, whose name says nothing to its users.
  const what =
    node !== undefined && channel === SENDS
      ? `A Send of node ${JSON.stringify(node)}`
      : node !== undefined
        ? `What node ${JSON.stringify(node)} wrote to ${told}`
        : channel === INPUT
          ? "The input of the graph"
          : channel === SENDS
            ? "What a Send carries"
            : `The value of ${told}`;
  const there = error.path === "" ? `it is ${error.found}` : `at ${error.path} there is ${error.found}`;
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    problem: `${what} can't be saved: ${there}.`,
    remedy: `${remedyFor(channel)}; the previous checkpoint is intact.`,
    data: { ...error.data, channel, ...(node === undefined ? {} : { node }) },
    cause: error,
  });
}
