import { TurnsError } from "../errors";
import { assertWellFormed, corruptedRow, rowName } from "./failures";
import { encodeParts } from "./parts";
import type { Sealing } from "./sealing";
import { sha256 } from "./sha256";

/** Of a database without encryption: texts are stored as they are. */
export const plainSealing: Sealing = {
  encrypted: false,
  keyId: undefined,
  header: Buffer.alloc(0),

  address(threadId, text) {
    assertWellFormed(threadId, text);
    return sha256(text);
  },

  checksum: (threadId, ...parts) => sha256(encodeParts([threadId, ...parts])),

  seal(threadId, _identity, text) {
    assertWellFormed(threadId, text);
    return text;
  },

  open(threadId, identity, stored) {
    if (typeof stored === "string") return stored;
    if (!(stored instanceof Uint8Array)) throw corruptedRow(threadId, identity, "nothing");
    throw new TurnsError("ENCRYPTED", {
      what: rowName(threadId, identity),
      expected: "a text",
      found: `${stored.length} bytes`,
      remedy: "This database is encrypted; pass the option `encryption` with its keys.",
      data: { threadId, identity },
    });
  },
};
