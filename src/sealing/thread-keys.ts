import { createSecretKey, type KeyObject } from "node:crypto";
import { deriveKey } from "./derive";
import type { MasterKey } from "./keys";

/** Threads whose keys are kept. Deriving them again costs as much as sealing ten small texts. */
const CAPACITY = 1_000;
const NO_SALT = new Uint8Array(0);

/** The keys of one thread. */
export interface ThreadKeys {
  readonly address: KeyObject;
  readonly checksum: KeyObject;
  /** For sealing under a master key: from the master key, so that a new one protects new rows from whoever knows the old one. */
  seal(master: MasterKey): KeyObject;
}

/**
 * Derives the keys of threads and keeps those of the threads used last.
 *
 * Addresses and checksums come from the database's secret, which outlives every master key; the secret is also the salt of the
 * sealing keys, so that rows of two databases with one master key cannot be exchanged.
 */
export class ThreadKeyring {
  readonly #secret: Buffer;
  readonly #root: KeyObject;
  readonly #threads = new Map<string, ThreadKeys>();

  constructor(secret: Uint8Array) {
    this.#secret = Buffer.from(secret);
    this.#root = createSecretKey(this.#secret);
  }

  of(threadId: string): ThreadKeys {
    const known = this.#threads.get(threadId);
    const keys = known ?? this.#derive(threadId);
    // A Map lists its keys by age: taking one out and putting it back makes it the youngest.
    if (known !== undefined) this.#threads.delete(threadId);
    else if (this.#threads.size >= CAPACITY) this.#threads.delete(this.#threads.keys().next().value as string);
    this.#threads.set(threadId, keys);
    return keys;
  }

  #derive(threadId: string): ThreadKeys {
    const sealing = new Map<string, KeyObject>();
    return {
      address: deriveKey(this.#root, NO_SALT, "address", threadId),
      checksum: deriveKey(this.#root, NO_SALT, "checksum", threadId),
      seal: (master) => {
        const known = sealing.get(master.id);
        if (known !== undefined) return known;
        const key = deriveKey(master.key, this.#secret, "seal", threadId);
        sealing.set(master.id, key);
        return key;
      },
    };
  }
}
