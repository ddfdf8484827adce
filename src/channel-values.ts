import { encode, type EncodeOptions } from "./codec";
import { TurnsError } from "./errors";

/** Codec text of a channel's value. @throws {TurnsError} UNSERIALIZABLE_VALUE naming the channel and the path in it */
export function encodeChannel(channel: string, value: unknown, options: EncodeOptions): string {
  try {
    return encode(value, options);
  } catch (error) {
    throw TurnsError.is(error, "UNSERIALIZABLE_VALUE") ? inChannel(channel, error) : error;
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

function inChannel(channel: string, error: TurnsError): TurnsError {
  const path = typeof error.data["path"] === "string" ? error.data["path"] : "";
  return new TurnsError("UNSERIALIZABLE_VALUE", {
    what: `channel ${JSON.stringify(channel)}${path === "" ? "" : ` at ${path}`}`,
    expected: "a value that can be saved and read back as what it was",
    found: error.message,
    remedy: "Keep such values out of the graph's state. The previous checkpoint is intact.",
    data: { ...error.data, channel },
    cause: error,
  });
}
