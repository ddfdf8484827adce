import { existsSync } from "node:fs";
import { Argument, Command, CommanderError, Help, Option } from "commander";
import type { BaseTurnSaver } from "../base-saver";
import type { TurnSaverOptions } from "../options";
import { nearestName } from "../unknown-option";
import type { CommandFace, CommandSpec, OwnCommandSpec } from "./command";
import { BACKUP, type ChangeOptions, CHANGES } from "./commands/changes";
import { DOCTOR, SIZE, TOKENS, VERIFY } from "./commands/database";
import { EFFECTS, REWINDS } from "./commands/effects";
import { RUNS, STUCK } from "./commands/run";
import { TAIL } from "./commands/tail";
import { INBOX, OVERVIEW, STATUS, THREADS } from "./commands/threads";
import { EXPORT, MOVING } from "./commands/moving";
import { REPAIRING, REUSE, SALVAGE } from "./commands/repair";
import { BLAME, DIFF, GREP, LOG, SHOW, STATE } from "./commands/turns";
import { WEB, type WebOptions } from "./commands/web";
import { completionOf, SHELLS } from "./completion";
import { closed, opened } from "./database";
import { DONE, exitCodeOf, lastMessageOf, UsageError, WRONG_USAGE } from "./exit";
import { interrupted } from "./interrupt";
import { type Answer, keepStdout, type OutputOptions, write } from "./output";
import { type DatabaseOptions, isPlace, passwordNote, startedWith, withoutPassword, withoutPasswords } from "./place";
import { safe, word } from "./text";

export { hasLoadedModule } from "./graph-module";
export { print } from "./output";

/** The build puts the package's version here. */
declare const TURNS_VERSION: string | undefined;

/** What only looks: it opens the database read-only, and never migrates it. */
const READING: readonly CommandSpec[] = [
  ...[THREADS, STATUS, LOG, SHOW, STATE, DIFF, BLAME, TAIL, GREP],
  ...[EFFECTS, INBOX, STUCK, REWINDS, SIZE, TOKENS, VERIFY, DOCTOR, BACKUP, EXPORT],
];

/** What opens its databases itself, and changes one only with `--yes`. */
const OWN: readonly OwnCommandSpec[] = [...MOVING, ...REPAIRING];

const EXAMPLES = [
  "turns agent.db                    what is in it, and what needs somebody",
  "turns status order-17             what happened, what is in flight, can I resume",
  "turns log order-17 --failed       the attempts that failed, newest first",
];

/** Runs the command line. @returns its exit code; docs/command-line.md lists them */
export async function run(argv: readonly string[]): Promise<number> {
  const [first] = argv;
  const args = first !== undefined && isPlace(first) ? ["--db", ...argv] : [...argv];
  let exit = DONE;
  const program = assembled((code) => (exit = code));
  program.hook("preAction", (_, command) => {
    const options = command.optsWithGlobals<Options & { graph?: unknown }>();
    startedWith(argv, options);
    if (typeof options.graph === "string") keepStdout(options);
  });
  process.on("SIGINT", interrupted);
  try {
    await program.parseAsync(args, { from: "user" });
    return exit;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? DONE : WRONG_USAGE;
    const message = safe(withoutPasswords(await lastMessageOf(error)));
    process.stderr.write(`turns: ${message}${passwordNote(message)}\n`);
    return exitCodeOf(error);
  } finally {
    process.removeListener("SIGINT", interrupted);
  }
}

type Options = DatabaseOptions & OutputOptions;

/** @param exitWith told the exit code */
export function assembled(exitWith: (code: number) => void): Command {
  const program = new Command("turns")
    .description(
      "See what your LangGraph agents did, what is in flight, and what to do about it. Works on SQLite files and on PostgreSQL.",
    )
    .usage("[database] [command] [options]")
    .configureHelp({
      subcommandTerm: termOf,
      formatHelp: (command, help) => optionsLast(Help.prototype.formatHelp.call(help, command, help)),
    })
    .version(typeof TURNS_VERSION === "string" ? TURNS_VERSION : "unknown", "-V, --version", "the version")
    .argument("[command]")
    .option("--db <place>", "a file, or postgresql://host/database (default: TURNS_DB, DATABASE_URL, or the only file here)")
    .option("--schema <name>", "the schema with the tables, on PostgreSQL (default: TURNS_SCHEMA, or turns)")
    .option("--key-file <file>", "the keys of an encrypted database; - reads stdin (default: TURNS_KEY)")
    .option("--json", "one JSON document, as without a terminal")
    .option("--jsonl", "one line of JSON for each item of a list")
    .option("--table", "as on a terminal, also without one")
    .option("--fields <names>", "only these fields: threadId,state")
    .option("--utc", "times in UTC")
    .option("--no-color", "no colors, as with NO_COLOR")
    .option("--no-pager", "no pager, as with TURNS_PAGER=cat")
    .addHelpText("after", "\nturns COMMAND --help has examples and options of a command.")
    .addHelpText("before", `Examples:\n${EXAMPLES.map((line) => `  ${line}`).join("\n")}\n`)
    .exitOverride()
    .configureOutput({ outputError: (text, print) => print(usageText(text)) })
    .showSuggestionAfterError();
  const act = (spec: CommandSpec) => answering(spec, () => ({ readOnly: true }), exitWith);
  const change = ({ yes, dryRun }: ChangeOptions): TurnSaverOptions => ({ readOnly: yes !== true || dryRun === true });
  program.action(async (name: string | undefined, options: Options) => {
    if (name !== undefined) throw unknownCommand(name, program);
    await act(OVERVIEW)([], options);
  });
  const changes = "To change something, after a plan and --yes:";
  for (const spec of READING) add(program, spec, act(spec), "To look:");
  add(program, SALVAGE, alone(SALVAGE, exitWith), "To look:");
  add(
    program,
    WEB,
    answering(WEB, ({ write: may }: WebOptions) => ({ readOnly: may !== true }), exitWith),
    "To look:",
  );
  for (const spec of [...CHANGES, ...RUNS, REUSE]) add(program, spec, answering(spec, change, exitWith), changes);
  for (const spec of OWN) add(program, spec, alone(spec, exitWith), changes);
  program
    .command("help")
    .helpGroup("This program:")
    .summary("examples and options of a command")
    .argument("[command...]")
    .action((names: readonly string[]) => commandNamed(names, program).outputHelp());
  program
    .command("completion")
    .helpGroup("This program:")
    .summary("a script that completes commands and options in your shell")
    .addArgument(new Argument("<shell>").choices(SHELLS))
    .addHelpText("before", `Examples:\n${SHELLS.map((shell) => `  turns completion ${shell}`).join("\n")}\n`)
    .action((shell: (typeof SHELLS)[number]) => void process.stdout.write(`${completionOf(program, shell)}\n`));
  // Else a mistyped command with arguments is told to have too many. The commands themselves still refuse them.
  program.allowExcessArguments();
  return program;
}

function usageText(text: string): string {
  const example = / '--graph <module>' argument missing/.test(text)
    ? "Give its module and export: --graph ./agent.ts#graph.\n"
    : "";
  // "-dash" is read as the options -d -a -s -h.
  const dashed = /unknown option '-[^-]/.test(text) ? "If that is an id, put it behind --: turns status -- -ID.\n" : "";
  return withoutPasswords(text.replace(/^error: /, "turns: ")) + example + dashed;
}

/** A command in the list of commands, with the one that it's the only parent of. */
function termOf(command: Command): string {
  const [only] = command.commands;
  return only === undefined
    ? `${command.name()} ${command.usage().replace("[options]", "").trim()}`.trim()
    : `${command.name()} ${termOf(only)}`;
}

/** A newcomer looks for a command first. */
function optionsLast(help: string): string {
  const parts = help.trimEnd().split("\n\n");
  const isOptions = (part: string): boolean => part.startsWith("Options:");
  return `${[...parts.filter((part) => !isOptions(part)), ...parts.filter(isOptions)].join("\n\n")}\n`;
}

/** Where a command is in the list, if it isn't with the others of its kind. */
const GROUPS: Readonly<Record<string, readonly string[]>> = {
  "All threads:": ["threads", "inbox", "effects", "grep", "size", "tokens"],
  "One thread:": ["status", "log", "show", "state", "diff", "blame", "rewinds", "export"],
  "The database:": ["verify", "doctor", "backup", "salvage"],
  "Change a thread, after a plan and --yes:": ["effect resolve", "rewind", "take-back", "name", "copy", "delete", "reuse"],
  "Change the database, after a plan and --yes:": [
    ...["prune", "vacuum", "move", "import", "import-official", "migrate", "keys rotate"],
  ],
};

type Act = (args: readonly string[], options: Options) => Promise<void>;

function add(program: Command, { name, args = "", summary, examples, options = [] }: CommandFace, act: Act, kind: string): void {
  const [group = kind] = Object.entries(GROUPS).find(([, names]) => names.includes(name)) ?? [];
  const [last = "", outer] = name.split(" ").reverse();
  const parent =
    outer === undefined
      ? program
      : (program.commands.find((one) => one.name() === outer) ?? program.command(outer).helpGroup(group).summary(summary));
  const command = parent.command(`${last} ${args}`.trim()).helpGroup(group).summary(summary).description(`${summary}.`);
  command.addHelpText("before", `Examples:\n${examples.map((line) => `  ${line}`).join("\n")}\n`);
  for (const [flags, meaning, parse] of options) {
    const option = new Option(flags, meaning);
    command.addOption(
      parse === undefined ? option : option.argParser<unknown>(parse as (text: string, before: unknown) => unknown),
    );
  }
  command.action(async (...given: unknown[]) => {
    const texts = given
      .slice(0, -2)
      .flat()
      .filter((arg) => arg !== undefined) as string[];
    await act(texts, command.optsWithGlobals<Options>());
  });
}

function alone(spec: OwnCommandSpec, exitWith: (code: number) => void): Act {
  return async (args, options) => {
    const answer = await spec.runAlone(args, options);
    write(answer, options);
    exitWith(answer.exit ?? DONE);
  };
}

function answering(spec: CommandSpec, how: (options: object) => TurnSaverOptions, exitWith: (code: number) => void): Act {
  return async (args, options) => {
    const answered = (answer: Answer): void => {
      write(answer, options);
      exitWith(answer.exit ?? DONE);
    };
    let saver: BaseTurnSaver;
    try {
      saver = await opened(options, how(options));
    } catch (error) {
      const answer = spec.unopened?.(error);
      if (answer === undefined) throw error;
      answered(answer);
      return;
    }
    try {
      answered(await spec.run(saver, args, options));
    } finally {
      await closed(saver);
    }
  };
}

/** @throws {UsageError} */
function commandNamed(names: readonly string[], program: Command): Command {
  let found = program;
  for (const name of names) {
    const next = found.commands.find((command) => command.name() === name);
    if (next === undefined) throw unknownCommand(name, found);
    found = next;
  }
  return found;
}

function unknownCommand(name: string, program: Command): UsageError {
  const names = program.commands.map((command) => command.name());
  const nearest = nearestName(name, names);
  const shown = withoutPassword(name);
  return new UsageError(
    `There is no command "${shown}".`,
    nearest !== undefined
      ? `Did you mean "turns ${program.parent === null ? "" : `${program.name()} `}${nearest}"?`
      : existsSync(name)
        ? `If it's a database, put it first, or behind --db: turns --db ${word(shown)}.`
        : /[./:]/.test(name)
          ? `If it's a database, give a file that exists or postgresql://host/database: --db ${word(shown)}. turns --help lists the commands.`
          : "turns --help lists the commands.",
  );
}
