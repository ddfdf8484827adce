import type { Random } from "./random";

/** A target, opened: it tries inputs. */
export interface Session {
  /** Valid inputs; all others are made from these. */
  seeds: readonly Buffer[];
  /** A further input, made from two. */
  mutate: (input: Buffer, other: Buffer, random: Random) => Buffer;
  /**
   * Hands an input over to the product.
   *
   * @returns the outcome in few words
   * @throws {Finding} for an outcome that must not happen
   */
  feed: (input: Buffer) => string | Promise<string>;
  close: () => void;
}

export interface Target {
  about: string;
  open: (random: Random) => Session | Promise<Session>;
}

/** What must not happen has happened. */
export class Finding extends Error {}
