// Run in a pod's namespace: asks until the first 200, prints when that was (ms since the epoch). It says `asking` first.
//   node first-answer.ts PORT AUTHORITY
import { request } from 'node:http';

const [port = '', authority = ''] = process.argv.slice(2);
process.stdout.write('asking\n');
ask();

function ask(): void {
  const again = () => setTimeout(ask, 1);
  const call = request({ host: '127.0.0.1', port, headers: { host: authority }, agent: false }, (response) => {
    response.resume();
    if (response.statusCode !== 200) return void response.on('end', again);
    process.stdout.write(`${performance.timeOrigin + performance.now()}\n`, () => process.exit(0));
  });
  call.on('error', again);
  call.end();
}
