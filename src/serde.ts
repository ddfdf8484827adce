import type { Checkpoint, CheckpointMetadata, PendingWrite, SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { Serialized } from "./codec";
import { TurnsError } from "./errors";

/**
 * A user's serde in place of our codec. Its output, bytes included, is kept as it is.
 *
 * A serde is asynchronous, so a save can't commit before it returns its promise. The order is kept: serialising starts when the
 * save is requested, and saves (turns included) commit in the order in which they were requested.
 */
export class UserSerde {
  #last: Promise<unknown> = Promise.resolve();

  constructor(private readonly serde: SerializerProtocol) {}

  /** Commits once the value is serialised and every earlier request has had its turn. */
  inOrder<T, R>(serialized: Promise<T>, commit: (value: T) => R | Promise<R>): Promise<R> {
    const turn = Promise.all([this.#last, serialized]).then(([, value]) => commit(value));
    // Also if it is refused at once: earlier requests still have their turn. Results would form a chain that is never freed.
    this.#last = Promise.allSettled([this.#last, turn]).then(() => undefined);
    return turn;
  }

  /** Resolves when the last requested save has had its turn. */
  async settled(): Promise<void> {
    await this.#last;
  }

  async channels(
    values: Readonly<Record<string, unknown>>,
    metadata: CheckpointMetadata,
  ): Promise<{ values: Record<string, unknown>; metadata: unknown }> {
    const channels = Object.keys(values);
    const dumped = Promise.all([
      this.dump(metadata, "the metadata"),
      ...channels.map((channel) => this.dump(values[channel], `channel ${JSON.stringify(channel)}`)),
    ]);
    const [first, ...rest] = await dumped;
    return { values: Object.fromEntries(channels.map((channel, index) => [channel, rest[index]])), metadata: first };
  }

  async writes(writes: readonly PendingWrite[]): Promise<PendingWrite[]> {
    const channels = writes.map(([channel]) => channel);
    const dumped = Promise.all(writes.map(([channel, value]) => this.dump(value, `channel ${JSON.stringify(channel)}`)));
    return (await dumped).map((value, index) => [channels[index] as string, value]);
  }

  /**
   * Starts serialising at once.
   * @throws {TurnsError} UNSERIALIZABLE_VALUE with the serde's error as cause
   */
  async dump(value: unknown, what: string): Promise<Serialized> {
    try {
      const [type, data] = await this.serde.dumpsTyped(value);
      return new Serialized(type, data);
    } catch (cause) {
      throw new TurnsError("UNSERIALIZABLE_VALUE", {
        problem: `The option "serde" refused ${what}.`,
        remedy: "See the cause. Nothing was saved.",
        cause,
      });
    }
  }

  async load(value: Serialized): Promise<unknown> {
    try {
      return await this.serde.loadsTyped(value.type, value.data);
    } catch (cause) {
      throw new TurnsError("UNDECODABLE_VALUE", {
        problem: 'The option "serde" can\'t read a value that a serde has serialised.',
        remedy: "Pass the serde that the value was saved with.",
        cause,
      });
    }
  }
}

/** The value itself, if the serde made it. */
export async function loaded(serde: UserSerde | undefined, value: unknown): Promise<unknown> {
  if (!(value instanceof Serialized)) return value;
  if (serde !== undefined) return serde.load(value);
  throw withoutSerde();
}

const withoutSerde = (): TurnsError =>
  new TurnsError("UNDECODABLE_VALUE", {
    problem: "A value was serialised by a serde, and this saver has none.",
    remedy: "Read it through a saver with the serde that it was saved with.",
  });

/** @throws {TurnsError} UNDECODABLE_VALUE if any part of the record was written by a serde */
export function refuseSerialized(record: Record<string, unknown>): void {
  if (Object.values(record).some((value) => value instanceof Serialized)) throw withoutSerde();
}

/** {@link loaded} for each value of a record. It doesn't wait for values that need no loading. */
export async function loadedRecord(
  serde: UserSerde | undefined,
  record: Record<string, unknown>,
): Promise<Record<string, unknown>> {
  for (const key of Object.keys(record)) {
    if (!(record[key] instanceof Serialized)) continue;
    const value = await loaded(serde, record[key]);
    Object.defineProperty(record, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return record;
}

/**
 * Copies all of a checkpoint except its channel values, which a serde starts to read at once.
 * @returns a checkpoint that later changes by the caller don't reach, with the caller's own `channel_values`
 */
export function copyExceptValues(checkpoint: Checkpoint): Checkpoint {
  const seen = Object.entries(checkpoint.versions_seen ?? {}).map(([node, versions]) => [node, { ...versions }]);
  return {
    ...checkpoint,
    channel_versions: { ...checkpoint.channel_versions },
    versions_seen: Object.fromEntries(seen) as Checkpoint["versions_seen"],
  };
}

/** Copies what a row has of a checkpoint's metadata beside what the serde makes of them, so that later changes don't reach it. */
export function copiedMetadata(metadata: CheckpointMetadata): CheckpointMetadata {
  const copy: Record<string, unknown> = { ...metadata };
  for (const [key, value] of Object.entries(copy)) if (typeof value === "object" && value !== null) copy[key] = { ...value };
  return copy as unknown as CheckpointMetadata;
}
