import type { Command } from "commander";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** A script that completes commands and options. */
export function completionOf(program: Command, shell: (typeof SHELLS)[number]): string {
  const commands = program.commands;
  const flagsOf = (of: Command): string[] => of.options.flatMap(({ long }) => long ?? []);
  const common = flagsOf(program);
  if (shell === "fish") {
    const lines = commands.flatMap((one) => [
      `complete -c turns -f -n __fish_use_subcommand -a ${one.name()} -d ${quoted(one.description())}`,
      ...one.options.map(
        ({ long, description }) =>
          `complete -c turns -n '__fish_seen_subcommand_from ${one.name()}' -l ${long?.slice(2)} -d ${quoted(description)}`,
      ),
    ]);
    return [...lines, ...common.map((flag) => `complete -c turns -l ${flag.slice(2)}`)].join("\n");
  }
  const cases = commands.map((one) => `    ${one.name()}) words="${[...flagsOf(one), ...common].join(" ")}" ;;`);
  const script = `_turns() {
  local word="\${COMP_WORDS[COMP_CWORD]}" command="" each words
  for each in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$each" in ${commands.map((one) => one.name()).join("|")}) command="$each"; break ;; esac
  done
  case "$command" in
${cases.join("\n")}
    *) words="${[...commands.map((one) => one.name()), ...common].join(" ")}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ -z "$COMPREPLY" ]; then COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -F _turns turns`;
  return shell === "bash"
    ? script
    : `autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n${script}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`\'`)}'`;
}
