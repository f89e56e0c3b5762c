// Runs one function often enough that V8 compiles it, and then writes how often it ran to the file that is named.
let count = 0;

function openetwWork(rounds) {
  let sum = 0;
  for (let round = 0; round < rounds; round++) sum = (sum * 31 + round) % 1000003;
  return sum;
}

const end = Date.now() + 1000;
while (Date.now() < end) {
  openetwWork(10000);
  count++;
}
require('fs').writeFileSync(process.argv[2], String(count));
