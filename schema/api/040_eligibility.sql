-- Eligibility: which versions may be used for a case. A plain predicate over metadata; it knows nothing about relevance,
-- and relevance knows nothing about it. It runs before any ranking (law 1).
--
-- A version is eligible when it is visible to the tenant (row-level security), current at the instant, and applicable:
-- for each attribute it names, the case states one of its values. An attribute it does not name applies to every case.

set local role rag_owner;

-- Every visible version, with the reason why it is not eligible; reason is null for an eligible one.
--   superseded, scheduled, withdrawn   its status at the instant
--   attribute_differs                  the case has another value: attribute, both values
--   attribute_not_stated               the version names an attribute that the case does not state
-- Of several attributes, the first in byte order is named.
-- Distinct applies_to are few even where versions are many: each is compared with the case once.
create function rag_api.eligibility(
  p_case_facts jsonb,
  p_valid_at timestamptz default null,
  p_known_at timestamptz default null
)
  returns table (
    tenant text,
    document_id text,
    version integer,
    eligible boolean,
    reason text,
    attribute text,
    applies_to text[],
    case_value text,
    effective_version integer
  )
  language sql
  stable
  parallel restricted
begin atomic
  with scope as materialized (
    select
      d.applies_to,
      m.attribute,
      m.applies_to_values,
      m.case_value
    from (select distinct v.applies_to from rag.version v) as d
    left join lateral (
      select
        a.key as attribute,
        array(select jsonb_array_elements_text(a.value)) as applies_to_values,
        p_case_facts ->> a.key as case_value
      from jsonb_each(d.applies_to) as a
      where not coalesce(a.value ? (p_case_facts ->> a.key), false)
      order by a.key collate "C"
      limit 1
    ) as m on true
  )
  select
    s.tenant,
    s.document_id,
    s.version,
    s.is_current and c.attribute is null,
    case
      when not s.is_current then s.status
      when c.attribute is null then null
      when c.case_value is null then 'attribute_not_stated'
      else 'attribute_differs'
    end,
    case when s.is_current then c.attribute end,
    case when s.is_current then c.applies_to_values end,
    case when s.is_current then c.case_value end,
    s.effective_version
  from rag_api.version_status(p_valid_at, p_known_at) as s
  join scope c on c.applies_to = s.applies_to;
end;
revoke all on function rag_api.eligibility from public;
grant execute on function rag_api.eligibility to rag_reader, rag_auditor;
comment on function rag_api.eligibility is
  'Every visible version, whether it may be used for a case, and the reason when it may not.';

reset role;
