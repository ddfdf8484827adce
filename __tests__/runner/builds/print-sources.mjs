// Prints the source of each function that a built corpus exports, as the engine gives it: `print-sources.mjs <file…>`.
import { pathToFileURL } from "node:url";

const printed = {};
for (const file of process.argv.slice(2)) {
  const module = await import(pathToFileURL(file).href);
  const { nodes, Agent, ...functions } = module.research === undefined ? module.default : module;
  const all = { ...functions, ...nodes, respond: Agent.prototype.respond, Agent };
  printed[file] = Object.fromEntries(
    Object.entries(all)
      .filter(([, value]) => typeof value === "function")
      .map(([name, value]) => [name, Function.prototype.toString.call(value)]),
  );
}
process.stdout.write(JSON.stringify(printed));
