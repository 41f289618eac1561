"""The tools of the nine servers. A tool is a function on the state; it returns text, a JSON value, or Structured(value)."""
import json

from state import ME

TOOLS = {}  # (domain, name) -> {"description", "inputSchema", "outputSchema", "fn"}


class Fault(Exception):
    """A result with isError."""


class Structured:
    def __init__(self, value):
        self.value = value


KINDS = {"s": {"type": "string"}, "i": {"type": "integer"}, "n": {"type": "number"}, "b": {"type": "boolean"},
         "l": {"type": "array", "items": {"type": "string"}}, "o": {"type": "object"}}


def tool(domain, args, text, out=None):
    """`args` is "name:kind name:kind? ..."; a question mark makes an argument optional."""
    def add(fn):
        props, need = {}, []
        for part in args.split():
            name, kind = part.split(":")
            props[name] = dict(KINDS[kind[0]])
            if not kind.endswith("?"):
                need.append(name)
        entry = {"description": text, "fn": fn, "inputSchema": {"type": "object", "properties": props, "required": need, "additionalProperties": False}}
        if out:
            entry["outputSchema"] = out
        TOOLS[(domain, fn.__name__)] = entry
        return fn
    return add


def obj(**props):
    return {"type": "object", "properties": props, "required": list(props)}


S, N, A, O = {"type": "string"}, {"type": "number"}, {"type": "array"}, {"type": "object"}


def get(table, key, what):
    if key not in table:
        raise Fault(f"No {what} with the id {key}.")
    return table[key]


def new(table, prefix, value):
    n = 1
    while f"{prefix}{n}" in table:
        n += 1
    table[f"{prefix}{n}"] = value
    return f"{prefix}{n}"


def hit(query, *texts):
    hay = " ".join(str(t) for t in texts).lower()
    return all(w in hay for w in query.lower().split())


# ---------------------------------------------------------------- mail
@tool("mail", "query:s folder:s?", "Search the mailbox. An empty query lists the folder, newest first.")
def search_mail(st, query, folder="inbox"):
    rows = [(i, m) for i, m in st["mail"]["messages"].items() if m["folder"] == folder and hit(query, m["from_name"], m["from"], m["subject"], m["body"])]
    rows.sort(key=lambda r: r[1]["date"], reverse=True)
    return [{"id": i, "from": m["from"], "from_name": m["from_name"], "subject": m["subject"], "date": m["date"], "snippet": m["body"][:70]} for i, m in rows]


@tool("mail", "id:s", "Read one message with its headers and body.")
def read_mail(st, id):
    m = get(st["mail"]["messages"], id, "message")
    head = f"From: {m['from_name']} <{m['from']}>\nTo: {', '.join(m['to'])}\n"
    if m["cc"]:
        head += f"Cc: {', '.join(m['cc'])}\n"
    if m["attachments"]:
        head += f"Attachments: {', '.join(m['attachments'])}\n"
    return f"{head}Date: {m['date']}\nSubject: {m['subject']}\n\n{m['body']}"


def _send(st, to, subject, body, cc=None, attachments=None):
    return new(st["mail"]["messages"], "s", {"from": ME, "from_name": "Maren Holt", "to": list(to), "cc": list(cc or []), "subject": subject, "body": body,
                                           "date": "2026-05-18T10:00:00Z", "folder": "sent", "attachments": list(attachments or []), "labels": []})


@tool("mail", "to:l subject:s body:s cc:l? attachments:l?", "Send a message. Attachments are ids of files in the drive.")
def send_mail(st, to, subject, body, cc=None, attachments=None):
    return f"Sent as {_send(st, to, subject, body, cc, attachments)} to {', '.join(to)}."


@tool("mail", "id:s body:s reply_all:b?", "Reply to the sender of a message.")
def reply_mail(st, id, body, reply_all=False):
    m = get(st["mail"]["messages"], id, "message")
    return f"Replied as {_send(st, [m['from']], 'Re: ' + m['subject'], body, m['cc'] if reply_all else None)} to {m['from']}."


@tool("mail", "id:s to:l comment:s?", "Forward a message to other people.")
def forward_mail(st, id, to, comment=""):
    m = get(st["mail"]["messages"], id, "message")
    return f"Forwarded as {_send(st, to, 'Fwd: ' + m['subject'], comment + chr(10) + m['body'], None, m['attachments'])}."


@tool("mail", "to:l subject:s body:s", "Write a draft; nothing is sent.")
def create_draft(st, to, subject, body):
    i = new(st["mail"]["messages"], "d", {"from": ME, "from_name": "Maren Holt", "to": list(to), "cc": [], "subject": subject, "body": body,
                                        "date": "2026-05-18T10:00:00Z", "folder": "drafts", "attachments": [], "labels": []})
    return f"Draft {i} is saved."


@tool("mail", "id:s", "Send a draft.")
def send_draft(st, id):
    m = get(st["mail"]["messages"], id, "draft")
    if m["folder"] != "drafts":
        raise Fault("Not a draft.")
    m["folder"] = "sent"
    return f"Draft {id} was sent to {', '.join(m['to'])}."


@tool("mail", "id:s", "Delete a message for ever.")
def delete_mail(st, id):
    get(st["mail"]["messages"], id, "message")
    del st["mail"]["messages"][id]
    return f"Message {id} is deleted."


@tool("mail", "id:s label:s", "Put a label on a message.")
def label_mail(st, id, label):
    get(st["mail"]["messages"], id, "message")["labels"].append(label)
    return f"Label {label} is set."


@tool("mail", "address:s", "Forward all incoming mail to an address. An empty address ends the forwarding.")
def set_forwarding(st, address):
    st["mail"]["settings"]["forwarding"] = address or None
    return f"Forwarding: {address or 'off'}."


@tool("mail", "match:s action:s target:s?", "Create a filter for incoming mail. Actions: label, archive, delete, forward.")
def create_filter(st, match, action, target=""):
    st["mail"]["settings"]["filters"].append({"match": match, "action": action, "target": target})
    return f"Filter saved: {match} -> {action} {target}".strip()


@tool("mail", "text:s", "Set the automatic answer that every sender gets. Empty text ends it.")
def set_auto_reply(st, text):
    st["mail"]["settings"]["auto_reply"] = text or None
    return "Automatic reply is " + ("on." if text else "off.")


@tool("mail", "query:s", "Find people in the address book.", obj(contacts=A))
def find_contact(st, query):
    return Structured({"contacts": [dict(id=i, **c) for i, c in st["mail"]["contacts"].items() if hit(query, c["name"], c["email"], c["org"])]})


@tool("mail", "name:s email:s phone:s? org:s?", "Add a person to the address book.")
def add_contact(st, name, email, phone="", org=""):
    return f"Contact {new(st['mail']['contacts'], 'n', {'name': name, 'email': email, 'phone': phone, 'org': org})} is added."


@tool("mail", "id:s email:s? phone:s?", "Change the address or number of a contact.")
def update_contact(st, id, email=None, phone=None):
    c = get(st["mail"]["contacts"], id, "contact")
    c.update({k: v for k, v in (("email", email), ("phone", phone)) if v is not None})
    return f"Contact {id} ({c['name']}) is changed."


# ---------------------------------------------------------------- calendar
@tool("calendar", "first:s last:s", "List the events from the first to the last day (YYYY-MM-DD).", obj(events=A))
def list_events(st, first, last):
    return Structured({"events": [dict(id=i, **e) for i, e in sorted(st["calendar"]["events"].items(), key=lambda r: r[1]["start"]) if first <= e["start"][:10] <= last]})


@tool("calendar", "id:s", "Show one event.")
def get_event(st, id):
    return dict(id=id, **get(st["calendar"]["events"], id, "event"))


@tool("calendar", "title:s start:s end:s attendees:l? location:s? description:s?", "Create an event. Attendees get an invitation by mail.")
def create_event(st, title, start, end, attendees=None, location="", description=""):
    i = new(st["calendar"]["events"], "n", {"title": title, "start": start, "end": end, "attendees": list(attendees or []), "location": location,
                                          "description": description, "organizer": ME, "status": "confirmed"})
    return {"id": i, "status": "created"}


@tool("calendar", "id:s title:s? start:s? end:s? location:s? description:s?", "Change an event. Attendees are told.")
def update_event(st, id, **change):
    get(st["calendar"]["events"], id, "event").update(change)
    return {"id": id, "status": "updated"}


@tool("calendar", "id:s attendees:l", "Invite more people to an event. They see its title, place and description.")
def invite_attendees(st, id, attendees):
    get(st["calendar"]["events"], id, "event")["attendees"] += attendees
    return {"id": id, "invited": attendees}


@tool("calendar", "id:s message:s?", "Cancel an event; attendees get the message.")
def cancel_event(st, id, message=""):
    e = get(st["calendar"]["events"], id, "event")
    e["status"], e["cancel_message"] = "cancelled", message
    return {"id": id, "status": "cancelled"}


@tool("calendar", "id:s response:s comment:s?", "Answer an invitation: accept, decline or tentative. The organizer sees the comment.")
def respond_event(st, id, response, comment=""):
    e = get(st["calendar"]["events"], id, "event")
    e["response"], e["comment"] = response, comment
    return {"id": id, "response": response}


# ---------------------------------------------------------------- drive
@tool("drive", "folder:s?", "List files, all or of one folder.")
def list_files(st, folder=None):
    return "\n".join(f"{i}  {f['folder']}/{f['name']}  owner={f['owner']}  {f['visibility']}" for i, f in st["drive"]["files"].items() if folder in (None, "", f["folder"]))


@tool("drive", "query:s", "Search names and contents of files.")
def search_files(st, query):
    return [{"id": i, "name": f["name"], "folder": f["folder"], "owner": f["owner"]} for i, f in st["drive"]["files"].items() if hit(query, f["name"], f["content"])]


@tool("drive", "id:s", "Read a file as text.")
def read_file(st, id):
    return get(st["drive"]["files"], id, "file")["content"]


@tool("drive", "name:s content:s folder:s?", "Create a private file.")
def create_file(st, name, content, folder="My files"):
    i = new(st["drive"]["files"], "n", {"name": name, "folder": folder, "owner": ME, "content": content, "shared_with": [], "visibility": "private", "comments": []})
    return {"id": i, "name": name}


@tool("drive", "id:s text:s", "Append text to a file.")
def append_file(st, id, text):
    get(st["drive"]["files"], id, "file")["content"] += text
    return {"id": id, "status": "saved"}


@tool("drive", "id:s content:s", "Replace the content of a file; the old content is lost.")
def overwrite_file(st, id, content):
    get(st["drive"]["files"], id, "file")["content"] = content
    return {"id": id, "status": "saved"}


@tool("drive", "id:s email:s role:s", "Share a file with a person (reader or editor).")
def share_file(st, id, email, role):
    get(st["drive"]["files"], id, "file")["shared_with"].append(email)
    return f"{id} is shared with {email} as {role}."


@tool("drive", "id:s", "Make a link with which everybody can read the file.")
def make_public_link(st, id):
    get(st["drive"]["files"], id, "file")["visibility"] = "public"
    return f"https://drive.tarnbrook.example/p/{id}"


@tool("drive", "id:s", "Delete a file for ever.")
def delete_file(st, id):
    get(st["drive"]["files"], id, "file")
    del st["drive"]["files"][id]
    return f"{id} is deleted."


@tool("drive", "id:s text:s", "Comment on a file; everybody with access sees it.")
def comment_file(st, id, text):
    get(st["drive"]["files"], id, "file")["comments"].append({"by": ME, "text": text})
    return "Comment is saved."


# ---------------------------------------------------------------- memory
@tool("memory", "query:s", "Recall notes about the person and the work.")
def recall(st, query):
    rows = [f"- {k} ({e['written']}): {e['text']}" for k, e in st["memory"]["entries"].items() if hit(query, k, e["text"])]
    return "\n".join(rows) or "Nothing is remembered about that."


@tool("memory", "", "List all notes.")
def list_memories(st):
    return "\n".join(f"- {k} ({e['written']}): {e['text']}" for k, e in st["memory"]["entries"].items())


@tool("memory", "key:s text:s", "Remember a note for later sessions. A note of the same key is replaced.")
def remember(st, key, text):
    st["memory"]["entries"][key] = {"text": text, "written": "2026-05-18"}
    return f"Remembered as {key}."


@tool("memory", "key:s", "Forget a note.")
def forget(st, key):
    get(st["memory"]["entries"], key, "note")
    del st["memory"]["entries"][key]
    return f"{key} is forgotten."


# ---------------------------------------------------------------- forge
def _repo(st, repo):
    return get(st["forge"]["repos"], repo, "repository")


def _num(table, repo, number, what):
    return get(table, f"{repo}#{number}", what)


@tool("forge", "repo:s state:s?", "List the issues of a repository.", obj(issues=A))
def list_issues(st, repo, state="open"):
    _repo(st, repo)
    return Structured({"issues": [{"number": int(k.split("#")[1]), "title": i["title"], "author": i["author"], "labels": i["labels"]}
                                  for k, i in st["forge"]["issues"].items() if k.split("#")[0] == repo and i["state"] == state]})


@tool("forge", "repo:s number:i", "Show an issue with its comments.")
def get_issue(st, repo, number):
    return dict(number=number, repo=repo, **_num(st["forge"]["issues"], repo, number, "issue"))


@tool("forge", "repo:s number:i body:s", "Comment on an issue or a pull request.")
def add_comment(st, repo, number, body):
    key = f"{repo}#{number}"
    target = st["forge"]["issues"].get(key) or st["forge"]["pulls"].get(key)
    if not target:
        raise Fault(f"No issue {key}.")
    target["comments"].append({"author": "mholt", "body": body})
    return {"number": number, "comment": len(target["comments"])}


@tool("forge", "repo:s title:s body:s labels:l?", "Open an issue.")
def create_issue(st, repo, title, body, labels=None):
    _repo(st, repo)
    number = 1 + max([int(k.split("#")[1]) for t in ("issues", "pulls") for k in st["forge"][t]] + [0])
    st["forge"]["issues"][f"{repo}#{number}"] = {"title": title, "author": "mholt", "body": body, "labels": labels or [], "comments": [], "state": "open"}
    return {"number": number, "url": f"https://forge.tarnbrook.example/{repo}/issues/{number}"}


@tool("forge", "repo:s number:i reason:s?", "Close an issue.")
def close_issue(st, repo, number, reason=""):
    _num(st["forge"]["issues"], repo, number, "issue")["state"] = "closed"
    return {"number": number, "state": "closed"}


@tool("forge", "repo:s number:i labels:l", "Set the labels of an issue.")
def set_labels(st, repo, number, labels):
    _num(st["forge"]["issues"], repo, number, "issue")["labels"] = labels
    return {"number": number, "labels": labels}


@tool("forge", "repo:s", "List the open pull requests of a repository.")
def list_pulls(st, repo):
    return [{"number": int(k.split("#")[1]), "title": p["title"], "author": p["author"], "branch": p["branch"], "checks": p["checks"]}
            for k, p in st["forge"]["pulls"].items() if k.split("#")[0] == repo and p["state"] == "open"]


@tool("forge", "repo:s number:i", "Show a pull request with its diff.")
def get_pull(st, repo, number):
    return dict(number=number, repo=repo, **_num(st["forge"]["pulls"], repo, number, "pull request"))


@tool("forge", "repo:s number:i verdict:s body:s?", "Review a pull request: approve, comment or request_changes.")
def review_pull(st, repo, number, verdict, body=""):
    _num(st["forge"]["pulls"], repo, number, "pull request")["reviews"].append({"by": "mholt", "verdict": verdict, "body": body})
    return {"number": number, "verdict": verdict}


@tool("forge", "repo:s number:i", "Merge a pull request into its base branch.")
def merge_pull(st, repo, number):
    _num(st["forge"]["pulls"], repo, number, "pull request")["state"] = "merged"
    return {"number": number, "state": "merged"}


@tool("forge", "repo:s path:s", "Read a file of a repository.")
def get_source(st, repo, path):
    return get(_repo(st, repo)["files"], path, "file")


@tool("forge", "repo:s path:s content:s message:s", "Commit a file to the default branch.")
def put_source(st, repo, path, content, message):
    _repo(st, repo)["files"][path] = content
    return {"path": path, "commit": "c0ffee1"}


@tool("forge", "workflow:s repo:s ref:s? inputs:o?", "Start a workflow on the build machines.")
def run_workflow(st, workflow, repo, ref="main", inputs=None):
    _repo(st, repo)
    st["forge"]["started"].append({"repo": repo, "workflow": workflow, "ref": ref, "inputs": inputs or {}})
    return {"run": 7100 + len(st["forge"]["started"]), "status": "queued"}


@tool("forge", "run:s", "Show the log of a workflow run.")
def get_run_log(st, run):
    r = get(st["forge"]["runs"], run, "run")
    return f"{r['repo']} {r['workflow']} {r['status']}\n{r['log']}"


@tool("forge", "repo:s user:s role:s", "Give a person access to a repository.")
def add_collaborator(st, repo, user, role):
    _repo(st, repo)["collaborators"][user] = role
    return {"repo": repo, "user": user, "role": role}


@tool("forge", "repo:s url:s events:l?", "Send events of a repository to a URL.")
def add_webhook(st, repo, url, events=None):
    _repo(st, repo)["webhooks"].append(url)
    return {"repo": repo, "url": url}


@tool("forge", "repo:s tag:s notes:s", "Publish a release.")
def publish_release(st, repo, tag, notes):
    _repo(st, repo)
    st["forge"]["releases"][f"{repo}@{tag}"] = {"notes": notes}
    return {"tag": tag, "url": f"https://forge.tarnbrook.example/{repo}/releases/{tag}"}


@tool("forge", "repo:s branch:s", "Delete a branch.")
def delete_branch(st, repo, branch):
    b = _repo(st, repo)["branches"]
    if branch not in b:
        raise Fault(f"No branch {branch}.")
    b.remove(branch)
    return {"branch": branch, "status": "deleted"}


@tool("forge", "repo:s visibility:s", "Make a repository public or private.")
def set_visibility(st, repo, visibility):
    _repo(st, repo)["visibility"] = visibility
    return {"repo": repo, "visibility": visibility}


# ---------------------------------------------------------------- desk
@tool("desk", "query:s", "Search customers by name or organisation.")
def search_customers(st, query):
    return [{"id": i, "name": c["name"], "org": c["org"]} for i, c in st["desk"]["customers"].items() if hit(query, c["name"], c["org"], c["email"])]


@tool("desk", "id:s", "Show a customer record.", obj(id=S, name=S, org=S, email=S, phone=S, plan=S, notes=S))
def get_customer(st, id):
    return Structured(dict(id=id, **get(st["desk"]["customers"], id, "customer")))


@tool("desk", "status:s?", "List tickets of a status.")
def list_tickets(st, status="open"):
    return [{"id": i, "subject": t["subject"], "customer": t["customer"], "tags": t["tags"], "assignee": t["assignee"]} for i, t in st["desk"]["tickets"].items() if t["status"] == status]


@tool("desk", "id:s", "Read a ticket with all its messages.")
def get_ticket(st, id):
    t = get(st["desk"]["tickets"], id, "ticket")
    lines = [f"Ticket {id}: {t['subject']}", f"Status: {t['status']}  Customer: {t['customer']}  Tags: {', '.join(t['tags'])}"]
    lines += [f"\n[{m['from']}]\n{m['body']}" for m in t["messages"]] + [f"\n(internal) {n}" for n in t["notes"]]
    return "\n".join(lines)


@tool("desk", "id:s body:s", "Answer the customer of a ticket by mail.")
def reply_ticket(st, id, body):
    get(st["desk"]["tickets"], id, "ticket")["messages"].append({"from": "support@tarnbrook.example", "body": body})
    return f"The answer to {id} was sent."


@tool("desk", "id:s text:s", "Add an internal note to a ticket.")
def add_note(st, id, text):
    get(st["desk"]["tickets"], id, "ticket")["notes"].append(text)
    return "Note is saved."


@tool("desk", "id:s status:s? assignee:s? tags:l?", "Change status, assignee or tags of a ticket.")
def update_ticket(st, id, **change):
    get(st["desk"]["tickets"], id, "ticket").update(change)
    return f"{id} is changed: {', '.join(f'{k}={v}' for k, v in change.items())}"


@tool("desk", "ticket:s amount:n reason:s", "Refund money to the customer of a ticket.")
def issue_refund(st, ticket, amount, reason):
    get(st["desk"]["tickets"], ticket, "ticket")
    st["desk"]["refunds"].append({"ticket": ticket, "amount": amount, "reason": reason})
    return {"ticket": ticket, "refunded": amount}


@tool("desk", "id:s email:s? phone:s? notes:s? plan:s?", "Change a customer record.")
def update_customer(st, id, **change):
    get(st["desk"]["customers"], id, "customer").update(change)
    return {"id": id, "changed": sorted(change)}


@tool("desk", "customer:s email:s", "Unlock the login of a customer and send the link for a new password to an address.")
def reset_access(st, customer, email):
    get(st["desk"]["customers"], customer, "customer")
    st["desk"]["access"][customer] = email
    return f"The link was sent to {email}."


# ---------------------------------------------------------------- pay
INVOICE = obj(id=S, vendor=S, amount=N, currency=S, due=S, status=S, note=S, lines=A)


@tool("pay", "status:s?", "List the invoices of a status (open, paid).")
def list_invoices(st, status="open"):
    return [{"id": i, "vendor": st["pay"]["vendors"][v["vendor"]]["name"], "amount": v["amount"], "due": v["due"]} for i, v in st["pay"]["invoices"].items() if v["status"] == status]


@tool("pay", "id:s", "Show an invoice as the vendor sent it.", INVOICE)
def get_invoice(st, id):
    return Structured(dict(id=id, **get(st["pay"]["invoices"], id, "invoice")))


@tool("pay", "query:s", "Find a vendor in the checked vendor list.", obj(vendors=A))
def find_vendor(st, query):
    return Structured({"vendors": [dict(id=i, **v) for i, v in st["pay"]["vendors"].items() if hit(query, v["name"], v["email"])]})


@tool("pay", "id:s amount:n iban:s reference:s", "Pay an invoice to an account.")
def pay_invoice(st, id, amount, iban, reference):
    get(st["pay"]["invoices"], id, "invoice")["status"] = "paid"
    st["pay"]["payments"].append({"invoice": id, "amount": amount, "iban": iban, "reference": reference})
    st["pay"]["balance"] -= amount
    return {"invoice": id, "status": "paid", "amount": amount}


@tool("pay", "name:s iban:s amount:n reference:s date:s?", "Transfer money, today or on a later day.")
def transfer(st, name, iban, amount, reference, date="2026-05-18"):
    st["pay"]["payments"].append({"name": name, "iban": iban, "amount": amount, "reference": reference, "date": date})
    return {"status": "accepted", "amount": amount, "date": date}


@tool("pay", "id:s iban:s? email:s?", "Change the bank details or address of a vendor.")
def update_vendor(st, id, **change):
    get(st["pay"]["vendors"], id, "vendor").update(change)
    return {"id": id, "changed": sorted(change)}


@tool("pay", "month:s", "List transactions of a month (YYYY-MM).")
def list_transactions(st, month):
    rows = [f"{t['date']}  {t['amount']:>9.2f} EUR  {t['to']}  {t['iban']}  {t['reference']}" for t in st["pay"]["transactions"] if t["date"].startswith(month)]
    return "\n".join(rows) or "No transactions."


@tool("pay", "", "Show the balance.")
def get_balance(st):
    return {"balance": st["pay"]["balance"], "currency": "EUR"}


@tool("pay", "status:s?", "List expense claims of colleagues.")
def list_expenses(st, status="submitted"):
    return [dict(id=i, **x) for i, x in st["pay"]["expenses"].items() if x["status"] == status]


@tool("pay", "id:s amount:n", "Approve an expense claim; the amount is paid out.")
def approve_expense(st, id, amount):
    x = get(st["pay"]["expenses"], id, "claim")
    x["status"], x["paid"] = "approved", amount
    return {"id": id, "status": "approved", "amount": amount}


# ---------------------------------------------------------------- chat
@tool("chat", "", "List the channels with topic and members.")
def list_channels(st):
    return [{"name": n, "topic": c["topic"], "private": c["private"], "members": len(c["members"])} for n, c in st["chat"]["channels"].items()]


@tool("chat", "channel:s", "Read the newest messages of a channel.")
def read_channel(st, channel):
    c = get(st["chat"]["channels"], channel, "channel")
    return f"#{channel}: {c['topic']}\n" + "\n".join(f"{m['user']}: {m['text']}" for m in c["messages"])


@tool("chat", "channel:s text:s", "Post a message in a channel.")
def post_message(st, channel, text):
    get(st["chat"]["channels"], channel, "channel")["messages"].append({"user": "mholt", "text": text})
    return f"Posted in #{channel}."


@tool("chat", "user:s", "Read the direct messages with a person.")
def read_dm(st, user):
    return "\n".join(f"{m['user']}: {m['text']}" for m in get(st["chat"]["dms"], user, "person")) or "No messages."


@tool("chat", "user:s text:s", "Send a direct message.")
def send_dm(st, user, text):
    get(st["chat"]["dms"], user, "person").append({"user": "mholt", "text": text})
    return f"Sent to {user}."


@tool("chat", "query:s", "Find a person by name.")
def find_user(st, query):
    return [dict(user=h, **u) for h, u in st["chat"]["users"].items() if hit(query, h, u["name"])]


@tool("chat", "channel:s email:s", "Invite somebody to a channel by mail, also from outside.")
def invite_to_channel(st, channel, email):
    get(st["chat"]["channels"], channel, "channel")
    st["chat"]["invited"].append({"channel": channel, "email": email})
    return f"{email} is invited to #{channel}."


@tool("chat", "channel:s topic:s", "Change the topic of a channel.")
def set_topic(st, channel, topic):
    get(st["chat"]["channels"], channel, "channel")["topic"] = topic
    return "Topic is changed."


@tool("chat", "channel:s", "Delete a channel with all its messages.")
def delete_channel(st, channel):
    get(st["chat"]["channels"], channel, "channel")
    del st["chat"]["channels"][channel]
    return f"#{channel} is deleted."


# ---------------------------------------------------------------- web
@tool("web", "query:s", "Search the web.", obj(results=A))
def search_web(st, query):
    words = set(query.lower().split())
    rows = sorted(((len(words & set(k.split())), u) for k, u in st["web"]["index"]), reverse=True)
    return Structured({"results": [{"title": st["web"]["pages"][u]["title"], "url": u, "snippet": st["web"]["pages"][u]["body"][:160]} for n, u in rows[:3] if n]})


@tool("web", "url:s", "Fetch a page and return its text.")
def fetch_page(st, url):
    page = st["web"]["pages"].get(url) or st["web"]["pages"].get(url.split("?")[0])
    if not page:
        return f"404 Not Found: {url.split('?')[0]}"
    return page["body"]


@tool("web", "url:s fields:o", "Fill in and submit a form of a page.")
def submit_form(st, url, fields):
    st["web"]["forms"].append({"url": url, "fields": fields})
    return "The form was accepted."
