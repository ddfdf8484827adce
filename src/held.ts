import type { Checkpoint, PendingWrite } from "@langchain/langgraph-checkpoint";
import { decode, encode, type EncodeOptions } from "./codec";
import type { PackedText } from "./store/store";
import { once } from "./values";

/*
 * For saves that are asked for while the keys of the database are still on their way. Nothing can be packed yet, because the
 * addresses of parts are keyed, so what is to be saved is kept as it is now: what the caller changes meanwhile does not get into it.
 * The same goes for a serde of the user's, which takes its time.
 */

export function heldCheckpoint(checkpoint: Checkpoint, options: EncodeOptions): Checkpoint {
  const values = Object.entries(checkpoint.channel_values).map(([channel, value]) => [channel, held(value, options)]);
  return {
    ...checkpoint,
    channel_values: Object.fromEntries(values) as Checkpoint["channel_values"],
    channel_versions: { ...checkpoint.channel_versions },
  };
}

/** For a serde of the user's, which takes the values at once: all else of the checkpoint as it is now. */
export function heldFrame(checkpoint: Checkpoint): Checkpoint {
  const seen = Object.entries(checkpoint.versions_seen).map(([node, versions]) => [node, { ...versions }]);
  return {
    ...checkpoint,
    channel_versions: { ...checkpoint.channel_versions },
    versions_seen: Object.fromEntries(seen) as Checkpoint["versions_seen"],
  };
}

export function heldWrites(writes: readonly PendingWrite[], options: EncodeOptions): PendingWrite[] {
  return writes.map(([channel, value]) => [channel, held(value, options)] as PendingWrite);
}

/** What the codec refuses stays as it is: it is refused, and named, when it is packed. */
function held(value: unknown, options: EncodeOptions): unknown {
  try {
    return decode(encode(value, options));
  } catch {
    return value;
  }
}

/** A text that is packed when it is first looked at. */
export function packedLater(pack: () => PackedText): PackedText {
  const packed = once(pack);
  return {
    get text() {
      return packed().text;
    },
    get parts() {
      return packed().parts;
    },
  };
}
