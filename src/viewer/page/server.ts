import type { Server } from "../api";
import { store } from "./store";

/** What the server told of itself. */
export const server = store<Server | undefined>(undefined);
