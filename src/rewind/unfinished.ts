/** For rooms that do not speak to the store. */
export { unfinishedRewind } from "../store/unfinished-rewind";
