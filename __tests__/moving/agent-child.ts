/** Runs thread "t" and dies by SIGKILL in its second node. Arguments: kind and path of the database, and the path of the ledger. */
import { at } from "../support/enc-graph";
import { Deeds } from "../support/eff-world";
import { dieNow } from "../support/s1-tools";
import { agentOn, openAt, type Place } from "./move-world";

const [, , kind, path = "", ledger = ""] = process.argv;
const saver = openAt({ kind: kind as Place["kind"], path });
await agentOn(saver, new Deeds(ledger), dieNow).invoke({ log: [] }, at("t"));
