// Runs a real graph in a process of its own, which is traced. Arguments: contender id, supersteps, path of the database.
import Database from "better-sqlite3";
import { ChainGraph, messagesOf } from "../drive/chain-graph";
import { contendersHere } from "../drive/contenders";

const [id, supersteps, path] = process.argv.slice(2);
const { contenders } = await contendersHere();
const contender = contenders.find((candidate) => candidate.id === id);
if (contender?.onHandle === undefined || path === undefined) throw new Error(`no contender ${id} that takes a handle`);

const db = new Database(path);
// The official saver leaves it as it is: it has no option of its own.
db.pragma("synchronous = FULL");
const saver = contender.onHandle(db);
const graph = new ChainGraph({ saver, records: contender.records });
await graph.run("syncs", messagesOf(5, Number(supersteps)));
await graph.checkTurns("syncs");
if (db.pragma("synchronous", { simple: true }) !== 2) throw new Error(`${contender.name} did not stay fully durable`);
await contender.close(saver);
