import { encode, type EncodeOptions } from "./codec";
import { Unserializable } from "./codec/failures";
import { TurnsError } from "./errors";

/** Codec text of a channel's value. @throws {TurnsError} UNSERIALIZABLE_VALUE naming the channel and the path in it */
export function encodeChannel(channel: string, value: unknown, options: EncodeOptions): string {
  try {
    return encode(value, options);
  } catch (error) {
    throw error instanceof Unserializable ? inChannel(channel, error) : error;
  }
}

/** SQLite stores a lone surrogate as another character: what was written to one channel would come back in another. */
export function refuseIllFormed(channel: string): void {
  if (channel.isWellFormed()) return;
  throw new TurnsError("UNSERIALIZABLE_VALUE", {
    what: `the name of channel ${JSON.stringify(channel)}`,
    expected: "a string without lone surrogates",
    found: "one with them",
    remedy: "Rename the channel. Nothing was saved.",
    data: { channel },
  });
}

function inChannel(channel: string, error: Unserializable): TurnsError {
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    what: `channel ${JSON.stringify(channel)}${error.path === "" ? "" : ` at ${error.path}`}`,
    expected: "data that comes back as what it was",
    found: error.found,
    remedy:
      "Remove it from the state, replace it by plain data, or keep it in an untracked channel; the previous checkpoint is intact.",
    data: { ...error.data, channel },
    cause: error,
  });
}
