// Runs the program in Node.js: node host.mjs PROGRAM.wasm
import { readFileSync } from "node:fs";

let line = [];
const host = {
  // Prints a byte. A line appears as a whole.
  put(byte) {
    if (byte === 10) {
      console.log(Buffer.from(line).toString());
      line = [];
    } else {
      line.push(byte);
    }
  },
};
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), { host });
process.exitCode = instance.exports.main(0, 0);
