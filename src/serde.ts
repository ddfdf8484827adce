import type { Checkpoint, CheckpointMetadata, PendingWrite, SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { Serialized } from "./codec";
import { TurnsError } from "./errors";

/**
 * The user's serde, used instead of our codec. Everything it produces, bytes included, is stored as it is.
 *
 * A serde is asynchronous, so a save can't commit before it returns its promise. The order is kept: serialising begins when the
 * save is requested, and saves commit one after another in that order, turns among them.
 */
export class UserSerde {
  #last: Promise<unknown> = Promise.resolve();

  constructor(private readonly serde: SerializerProtocol) {}

  /** Commits when the value is serialised and all earlier requests have had their turn. */
  inOrder<T, R>(serialized: Promise<T>, commit: (value: T) => R | Promise<R>): Promise<R> {
    const turn = Promise.all([this.#last, serialized]).then(([, value]) => commit(value));
    // Also if this one is refused at once: earlier requests still have their turn.
    this.#last = Promise.allSettled([this.#last, turn]);
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

  /** Starts serialising at once. @throws {TurnsError} UNSERIALIZABLE_VALUE with the serde's error as cause */
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

/** The value itself, decoded if the serde encoded it. */
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

/** @throws {TurnsError} UNDECODABLE_VALUE if a serde encoded any part of the record */
export function refuseSerialized(record: Record<string, unknown>): void {
  if (Object.values(record).some((value) => value instanceof Serialized)) throw withoutSerde();
}

/** {@link loaded} for each value of a record. Values that need no loading aren't awaited. */
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

/** A copy of the checkpoint as it is now, except for its values: a serde takes those at once. */
export function heldFrame(checkpoint: Checkpoint): Checkpoint {
  const seen = Object.entries(checkpoint.versions_seen).map(([node, versions]) => [node, { ...versions }]);
  return {
    ...checkpoint,
    channel_versions: { ...checkpoint.channel_versions },
    versions_seen: Object.fromEntries(seen) as Checkpoint["versions_seen"],
  };
}
