/** Flags of Node's that are this process's own affair, with a value behind them or without. */
const WITH_VALUE = new Set(["-e", "--eval", "-p", "--print", "-pe", "--input-type"]);
const OWN =
  /^--(inspect|watch|test|prof|cpu-prof|heap-prof)(\b|-|=|$)|^--(eval|print|input-type)=|^-(i|c)$|^--(interactive|check)$/;

/** What of this process's flags its children get too: loaders above all, so that TypeScript under tsx stays TypeScript under tsx. */
export function inheritedFlags(flags: readonly string[] = process.execArgv): string[] {
  return flags.filter((flag, index) => !OWN.test(flag) && !WITH_VALUE.has(flag) && !WITH_VALUE.has(flags[index - 1] ?? ""));
}
