import { Argument, Command, CommanderError, Option } from "commander";
import type { TurnSaverOptions } from "../options";
import { nearestName } from "../unknown-option";
import type { CommandSpec } from "./command";
import { BACKUP, type ChangeOptions, CHANGES } from "./commands/changes";
import { DOCTOR, SIZE, TOKENS, VERIFY } from "./commands/database";
import { EFFECTS, REWINDS } from "./commands/effects";
import { INBOX, OVERVIEW, STATUS, THREADS } from "./commands/threads";
import { BLAME, DIFF, GREP, LOG, SHOW, STATE } from "./commands/turns";
import { completionOf, SHELLS } from "./completion";
import { closed, type DatabaseOptions, isPlace, opened } from "./database";
import { DONE, exitCodeOf, INTERRUPTED, messageOf, UsageError, WRONG_USAGE } from "./exit";
import { type OutputOptions, write } from "./output";

/** The build puts the package's version here. */
declare const TURNS_VERSION: string | undefined;

/** What only looks: it opens the database read-only, and never migrates it. */
const READING: readonly CommandSpec[] = [
  ...[THREADS, STATUS, LOG, SHOW, STATE, DIFF, BLAME, GREP],
  ...[EFFECTS, INBOX, REWINDS, SIZE, TOKENS, VERIFY, DOCTOR, BACKUP],
];

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
  const interrupted = (): never => process.exit(INTERRUPTED);
  process.on("SIGINT", interrupted);
  try {
    await program.parseAsync(args, { from: "user" });
    return exit;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? DONE : WRONG_USAGE;
    process.stderr.write(`turns: ${messageOf(error)}\n`);
    return exitCodeOf(error);
  } finally {
    process.removeListener("SIGINT", interrupted);
  }
}

type Options = DatabaseOptions & OutputOptions;

function assembled(exitWith: (code: number) => void): Command {
  const program = new Command("turns")
    .description("Looks into the threads of LangGraph agents that langgraph-checkpoint-turns keeps.")
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
    .option("--no-color", "no colours, as with NO_COLOR")
    .option("--no-pager", "no pager, as with TURNS_PAGER=cat")
    .addHelpText("before", `Examples:\n${EXAMPLES.map((line) => `  ${line}`).join("\n")}\n`)
    .exitOverride()
    .configureOutput({ outputError: (text, print) => print(text.replace(/^error: /, "turns: ")) })
    .showSuggestionAfterError();
  const act = (spec: CommandSpec) => answering(spec, () => ({ readOnly: true }), exitWith);
  const change = ({ yes, dryRun }: ChangeOptions): TurnSaverOptions => ({ readOnly: yes !== true || dryRun === true });
  program.action(async (name: string | undefined, options: Options) => {
    if (name !== undefined) throw unknownCommand(name, program);
    await act(OVERVIEW)([], options);
  });
  for (const spec of READING) add(program, spec, act(spec), "To look:");
  for (const spec of CHANGES)
    add(program, spec, answering(spec, change, exitWith), "To change something, after a plan and --yes:");
  program
    .command("completion")
    .helpGroup("To look:")
    .summary("a script that completes commands and options in your shell")
    .addArgument(new Argument("<shell>").choices(SHELLS))
    .addHelpText("before", `Examples:\n${SHELLS.map((shell) => `  turns completion ${shell}`).join("\n")}\n`)
    .action((shell: (typeof SHELLS)[number]) => void process.stdout.write(`${completionOf(program, shell)}\n`));
  return program;
}

type Act = (args: readonly string[], options: Options) => Promise<void>;

function add(program: Command, { name, args = "", summary, examples, options = [] }: CommandSpec, act: Act, group: string): void {
  const [last = "", outer] = name.split(" ").reverse();
  const parent =
    outer === undefined
      ? program
      : (program.commands.find((one) => one.name() === outer) ??
        program.command(outer).helpGroup(group).summary(`${outer} ${last}: ${summary}`));
  const command = parent.command(`${last} ${args}`.trim()).helpGroup(group).summary(summary).description(`${summary}.`);
  command.addHelpText("before", `Examples:\n${examples.map((line) => `  ${line}`).join("\n")}\n`);
  for (const [flags, meaning, parse] of options) {
    const option = new Option(flags, meaning);
    command.addOption(parse === undefined ? option : option.argParser(parse));
  }
  command.action(async (...given: unknown[]) => {
    const texts = given.slice(0, -2).filter((arg) => arg !== undefined) as string[];
    await act(texts, command.optsWithGlobals<Options>());
  });
}

function answering(spec: CommandSpec, how: (options: object) => TurnSaverOptions, exitWith: (code: number) => void): Act {
  return async (args, options) => {
    const saver = await opened(options, how(options));
    try {
      const answer = await spec.run(saver, args, options);
      write(answer, options);
      exitWith(answer.exit ?? DONE);
    } finally {
      await closed(saver);
    }
  };
}

function unknownCommand(name: string, program: Command): UsageError {
  const names = program.commands.map((command) => command.name());
  const nearest = nearestName(name, names);
  return new UsageError(
    `There is no command "${name}".`,
    nearest === undefined ? "turns --help lists the commands." : `Did you mean "turns ${nearest}"?`,
  );
}
