export { decode } from "./decode";
export { encode, type EncodeOptions } from "./encode";
export { isDense as isElementwise } from "./lists";
export { decodeOfficial } from "./official";
