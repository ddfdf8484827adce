import { fingerprintOf } from "../../src/testing-internal";
import { everyKind } from "./fp-graphs";

/** Prints the documents of a graph of each kind. */
const documents = Object.entries(everyKind()).map(([kind, graph]) => [kind, fingerprintOf(graph)]);
process.stdout.write(JSON.stringify(Object.fromEntries(documents)));
