import { InvalidArgumentError } from "commander";
import type { BaseTurnSaver } from "../base-saver";
import type { DatabaseOptions } from "./place";
import type { Answer } from "./output";
import { parsedDuration } from "./text";

/** An option: its flags, what it means, and how its text is read. `before` is what the same option gave earlier on the line. */
export type OptionSpec = readonly [flags: string, meaning: string, parse?: (text: string, before: never) => unknown];

/** What help, completion and tests know of every command. */
export interface CommandFace {
  name: string;
  /** Its arguments: `<thread> [turn]`. */
  args?: string;
  summary: string;
  /** The first lines of its help. */
  examples: readonly string[];
  options?: readonly OptionSpec[];
}

/** A command on one database, which is opened before it runs. */
export interface CommandSpec<O extends object = object> extends CommandFace {
  /** The answer if the database can't be opened; undefined: the error is the answer. */
  unopened?: (error: unknown) => Answer | undefined;
  run: (saver: BaseTurnSaver, args: readonly string[], options: O) => Promise<Answer>;
}

/** A command that opens its databases itself: two of them, or one that may not exist yet. */
export interface OwnCommandSpec<O extends object = object> extends CommandFace {
  runAlone: (args: readonly string[], options: O & DatabaseOptions) => Promise<Answer>;
}

/** {@link command} */
export function ownCommand<O extends object>(spec: OwnCommandSpec<O>): OwnCommandSpec {
  return spec as OwnCommandSpec;
}

/** Checks the type of a command's options, and forgets it. */
export function command<O extends object>(spec: CommandSpec<O>): CommandSpec {
  return spec as CommandSpec;
}

/** Readers of options. @throws InvalidArgumentError */
export function whole(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new InvalidArgumentError("Give a whole number.");
}

/** A list of nothing would look like the end of the list. */
export function atLeastOne(text: string): number {
  const value = whole(text);
  if (value > 0) return value;
  throw new InvalidArgumentError("Give 1 or more.");
}

/** Milliseconds. */
export function duration(text: string): number {
  const ms = parsedDuration(text);
  if (ms !== undefined) return ms;
  throw new InvalidArgumentError("Give a duration like 90m, 12h or 7d.");
}

/** A time: a date, or how long ago it was. */
export function pastTime(text: string): Date {
  const ms = parsedDuration(text);
  const at = ms === undefined ? new Date(text) : new Date(Date.now() - ms);
  if (!Number.isNaN(at.getTime())) return at;
  throw new InvalidArgumentError("Give a duration like 90m, 12h or 7d, or a date like 2026-01-31.");
}

export function oneOf<T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const found = values.find((value) => value === text);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`Give one of: ${values.join(", ")}.`);
  };
}

/** Some of these, with commas between them, or the option more than once. */
export function manyOf<T extends string>(values: readonly T[]): (text: string, before: readonly T[] | undefined) => T[] {
  const one = oneOf(values);
  return (text, before = []) => [...before, ...text.split(",").map((part) => one(part.trim()))];
}

/** Names with commas between them, or the option more than once. */
export function manyNames(text: string, before: readonly string[] = []): string[] {
  const names = text.split(",").map((part) => part.trim());
  return [...before, ...names.filter((name) => name !== "")];
}
