#!/usr/bin/env node
'use strict';

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const path = require('node:path');

const platform = `${process.platform}-${process.arch}`;
const platforms = [{% for platform in platforms %}'{{ platform }}'{{ ", " if not loop.last }}{% endfor %}];

function fail(text) {
  console.error(`hospes: ${text}`);
  process.exit(1);
}

function findProgram() {
  const name = `@hospes/${platform}`;
  if (!platforms.includes(platform)) {
    fail(`there is no program for ${platform}; packages exist for ${platforms.join(', ')}`);
  }
  try {
    const folder = path.dirname(require.resolve(`${name}/package.json`));
    return path.join(folder, 'bin', process.platform === 'win32' ? 'hospes.exe' : 'hospes');
  } catch {
    fail(
      `the package ${name} with the program is missing. Install again without --omit=optional, --no-optional and ` +
        `without a node_modules folder of another system, or add it: npm install ${name}@{{ version }}. ` +
        'On Linux the program requires glibc, which Alpine does not have.',
    );
  }
}

const program = findProgram();
// Not spawnSync: while it waits, Node handles no signal.
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
child.on('error', (error) => fail(`cannot start ${program}: ${error.message}`));

const onTerminal = [0, 1, 2].some((fd) => require('node:tty').isatty(fd));
const forwarded = ['SIGINT', 'SIGTERM', 'SIGHUP'];
for (const signal of forwarded) {
  process.on(signal, () => {
    // A terminal sends Ctrl-C to the program as well; twice would mean to stop at once.
    if (signal !== 'SIGINT' || !onTerminal) {
      child.kill(signal);
    }
  });
}

child.on('exit', (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  // Ends by the same signal, so that a shell sees the same status.
  forwarded.forEach((name) => process.removeAllListeners(name));
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + (constants.signals[signal] ?? 0)), 1000);
});
