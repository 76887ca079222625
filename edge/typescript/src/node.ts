/** The package with what runs under Node only. */

export * from "./index.js";
export { FileStore } from "./stores/file.js";
