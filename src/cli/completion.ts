import type { Command } from "commander";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** A script that completes commands, their subcommands and their options. */
export function completionOf(program: Command, shell: (typeof SHELLS)[number]): string {
  const { commands } = program;
  const common = flagsOf(program);
  if (shell === "fish") {
    const lines = commands.flatMap((one) => fishLines(one, []));
    const ways = commands.flatMap((one) => [one.name(), ...one.commands.map((inner) => `${one.name()} ${inner.name()}`)]);
    return [fishPath(ways), ...lines, ...common.map((flag) => `complete -c turns -l ${flag.slice(2)}`)].join("\n");
  }
  const named = commands.flatMap((one) => [
    [one.name(), one] as const,
    ...one.commands.map((inner) => [`"${one.name()} ${inner.name()}"`, inner] as const),
  ]);
  const cases = named.map(([name, one]) => `    ${name}) words="${[...namesOf(one), ...flagsOf(one), ...common].join(" ")}" ;;`);
  const ways = commands.flatMap((one) => [`" ${one.name()}"`, ...one.commands.map((inner) => `"${one.name()} ${inner.name()}"`)]);
  const script = `_turns() {
  local word="\${COMP_WORDS[COMP_CWORD]}" command="" each words
  for each in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "$command $each" in ${ways.join("|")}) command="\${command:+$command }$each" ;; esac
  done
  case "$command" in
${cases.join("\n")}
    *) words="${[...namesOf(program), ...common].join(" ")}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ -z "$COMPREPLY" ]; then COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -F _turns turns`;
  return shell === "bash"
    ? script
    : `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${script}`;
}

function flagsOf({ options }: Command): string[] {
  return options.flatMap(({ long }) => long ?? []);
}

function namesOf({ commands }: Command): string[] {
  return commands.map((one) => one.name());
}

/** Fish's own conditions take the database, an argument before the command, for a command. */
function fishPath(ways: readonly string[]): string {
  return `function __turns_at
  set -l path
  for each in (commandline -opc)[2..-1]
    if contains -- (string join ' ' -- $path $each) ${ways.map((way) => quoted(way)).join(" ")}
      set -a path $each
    end
  end
  test (string join ' ' -- '' $path) = (string join ' ' -- '' $argv)
end`;
}

/** @param outer the commands before it, under which its name is offered; its options and subcommands are behind its name */
function fishLines(one: Command, outer: readonly string[]): string[] {
  const path = [...outer, one.name()];
  const at = (words: readonly string[]): string => quoted(["__turns_at", ...words].join(" "));
  const options = one.options.flatMap(({ long, description }) =>
    long === undefined ? [] : `complete -c turns -n ${at(path)} -l ${long.slice(2)} -d ${quoted(description)}`,
  );
  const inner = one.commands.flatMap((sub) => fishLines(sub, path));
  return [`complete -c turns -f -n ${at(outer)} -a ${one.name()} -d ${quoted(one.summary())}`, ...options, ...inner];
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`\'`)}'`;
}
