// What a person does in a browser, for programs that need one to sign in: opens the page, signs in as Ann, agrees. The
// address that the application is called back at, with the answer in it.

// The values of our pages' hidden fields.
const hidden = (page, name) => {
    const found = page.match(new RegExp(`name="${name}" value="([^"]*)"`));
    if (!found) throw new Error(`no ${name} in ${page}`);
    return found[1];
};

export async function signIn(url) {
    let cookie = '';
    const open = async (where, fields) => {
        const form = fields && { method: 'POST', body: new URLSearchParams(fields) };
        const answer = await fetch(where, { redirect: 'manual', headers: { cookie }, ...form });
        cookie = answer.headers.getSetCookie().at(-1)?.split(';')[0] ?? cookie;
        return answer;
    };
    const next = async (answer, path, fields) => {
        const page = await answer.text();
        const known = { request: hidden(page, 'request'), csrf: hidden(page, 'csrf') };
        return open(new URL(path, url), { ...known, ...fields });
    };
    const first = await open(url);
    const consent = await next(first, '/sign-in', { user: 'ann', password: 'correct horse' });
    const back = await next(consent, '/consent', { decision: 'allow' });
    const location = back.headers.get('location');
    if (!location) throw new Error(`not sent back, but ${back.status}: ${await back.text()}`);
    return new URL(location);
}
