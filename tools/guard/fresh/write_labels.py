"""Write labels.json. One line per tool: P private, U untrusted, O outbound; n none, r reversible, i irreversible; then the sinks."""
import json
import os

TABLE = """
mail.search_mail          PU  n -                      fields=from,from_name,subject,snippet
mail.read_mail            PU  n -
mail.send_mail            O   r to,cc
mail.reply_mail           O   r id
mail.forward_mail         O   r to
mail.create_draft         -   r to
mail.send_draft           O   r id
mail.delete_mail          -   i id
mail.label_mail           -   r id
mail.set_forwarding       O   i address
mail.create_filter        O   i target
mail.set_auto_reply       O   i -
mail.find_contact         P   n -
mail.add_contact          -   r email,phone
mail.update_contact       -   r id,email,phone
calendar.list_events      PU  n -                      fields=title,location,description
calendar.get_event        PU  n -                      fields=title,location,description
calendar.create_event     O   r attendees
calendar.update_event     O   r id
calendar.invite_attendees O   i attendees
calendar.cancel_event     O   i id
calendar.respond_event    O   r id
drive.list_files          PU  n -
drive.search_files        PU  n -                      fields=name
drive.read_file           PU  n -
drive.create_file         -   r -
drive.append_file         -   r id
drive.overwrite_file      -   i id
drive.share_file          O   i email
drive.make_public_link    O   i id
drive.delete_file         -   i id
drive.comment_file        O   r id
memory.recall             P   n -
memory.list_memories      P   n -
memory.remember           -   r key
memory.forget             -   i key
forge.list_issues         U   n -                      fields=title,author,labels
forge.get_issue           U   n -                      fields=title,author,body
forge.add_comment         O   r repo,number
forge.create_issue        O   r repo
forge.close_issue         O   r repo,number
forge.set_labels          -   r repo,number
forge.list_pulls          U   n -                      fields=title,author,branch
forge.get_pull            U   n -                      fields=title,author,branch,body,diff
forge.review_pull         O   r repo,number
forge.merge_pull          -   i repo,number
forge.get_source          P   n -
forge.put_source          O   i repo,path
forge.run_workflow        -   i repo,workflow,ref
forge.get_run_log         PU  n -
forge.add_collaborator    -   i repo,user
forge.add_webhook         O   i url
forge.publish_release     O   i repo
forge.delete_branch       -   i repo,branch
forge.set_visibility      O   i repo
desk.search_customers     P   n -
desk.get_customer         P   n -
desk.list_tickets         PU  n -                      fields=subject
desk.get_ticket           PU  n -
desk.reply_ticket         O   r id
desk.add_note             -   r id
desk.update_ticket        -   r id
desk.issue_refund         -   i ticket
desk.update_customer      -   r id,email,phone
desk.reset_access         O   i email
pay.list_invoices         P   n -
pay.get_invoice           PU  n -                      fields=note,lines
pay.find_vendor           P   n -
pay.pay_invoice           O   i iban
pay.transfer              O   i iban
pay.update_vendor         -   i id,iban,email
pay.list_transactions     PU  n -
pay.get_balance           P   n -
pay.list_expenses         PU  n -                      fields=text
pay.approve_expense       -   i id
chat.list_channels        PU  n -                      fields=topic
chat.read_channel         PU  n -
chat.post_message         O   r channel
chat.read_dm              PU  n -
chat.send_dm              O   r user
chat.find_user            PU  n -                      fields=status
chat.invite_to_channel    O   i email
chat.set_topic            O   r channel
chat.delete_channel       -   i channel
web.search_web            U   n -
web.fetch_page            UO  n url
web.submit_form           O   i url
"""


def main():
    tools = {}
    for line in TABLE.strip().splitlines():
        name, flags, effect, sinks, *more = line.split()
        domain, tool = name.split(".")
        entry = {"private": "P" in flags, "untrusted": "U" in flags, "outbound": "O" in flags,
                 "effect": {"n": "none", "r": "reversible", "i": "irreversible"}[effect], "sinks": [] if sinks == "-" else sinks.split(",")}
        if more:
            entry["untrusted_fields"] = more[0].removeprefix("fields=").split(",")
        tools.setdefault(domain, {})[tool] = entry
    own = {"addresses": ["maren.holt@tarnbrook.example", "support@tarnbrook.example"], "domains": ["tarnbrook.example"], "handles": ["mholt"]}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "labels.json"), "w", encoding="utf-8") as f:
        json.dump({"own": own, "tools": tools}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
